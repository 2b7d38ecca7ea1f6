"""What a run would find in its run_dir, for who only wants to know.

It takes no lock and changes nothing, so it may look while another run uses the folder: it sees
what that one has written so far.
"""

from __future__ import annotations

import os

from evalframe.engines.belonging import resumed
from evalframe.engines.inputs import Inputs
from evalframe.engines.plan import Plan
from evalframe.engines.resume import Resume
from evalframe.engines.run_store import Codes
from evalframe.results.journal_reader import JournalReader
from evalframe.results.run_dir import RunFolder


class RunReader:
    """A run_dir that is looked into; it need not be there."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """See whether it is one.

        Args:
            path: The folder.

        Raises:
            RunDirError: No run could use it.
        """
        self._folder = RunFolder(path)
        self._folder.check()

    @property
    def replies(self) -> os.PathLike[str]:
        """The file for the reply cache."""
        return self._folder.replies

    def make(self) -> None:
        """Make the folder, for the reply cache.

        Raises:
            RunDirError: It cannot be made.
        """
        self._folder.make()

    def resume(
        self, plan: Plan, inputs: Inputs, codes: Codes, *, only: str | None, adds: bool
    ) -> Resume:
        """What the run would take over, and what would be left to do.

        Args:
            plan: The run as it would be without.
            inputs: What its calls read; outputs of the task that are there go in.
            codes: Evaluator, None for the task -> the digest of its code.
            only: The run's `only=`.
            adds: Whether the run may add to a folder of which nothing belongs to it.

        Raises:
            RunDirError: Nothing in the folder belongs to this run.
            JournalError: The journal is damaged or cannot be read.
        """
        further = {planned.name: planned.further for planned in plan.evaluators}
        journal = JournalReader(self._folder.journal, further, details=plan.details)
        return resumed(self._folder, journal, plan, inputs, codes, only=only, adds=adds)
