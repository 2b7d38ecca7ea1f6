"""What a run that is cut off is told, and what it tells when it ends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One run.

    Attributes:
        rows: How many.
        url: The server's.
        concurrency: Most calls at once.
        run_dir: Folder of the run; None for none.
        frame: File of the pickled frame.
        ledger: File of the client's count of its open calls.
        errors: As `run_experiment` takes it.
        raising: Whether the evaluator that raises on 1 % of the rows takes part.
        file_limit: No file may grow beyond so many bytes; None for no limit.
    """

    rows: int
    url: str
    concurrency: int
    run_dir: str | None
    frame: str
    ledger: str
    errors: str = "record"
    raising: bool = False
    file_limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a run ended.

    Attributes:
        raised: Name of the exception's type; None if it came to its end.
        message: What the exception said.
        partial: Whether there is a frame of what was done.
        safe: Of a JournalError: cells that are on disk, by evaluator; the task is "".
    """

    raised: str | None = None
    message: str = ""
    partial: bool = False
    safe: dict[str, int]
