"""The scripted server of `evalframe.testing`, as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Self

from processes import WorkerError, environment

if TYPE_CHECKING:
    from collections.abc import Mapping


class Server:
    """Listens on loopback while its `with` block runs; `url` is its address."""

    def __init__(self, latency: float, faults: Mapping[str, float] | None = None) -> None:
        """Remember what it is to do.

        Args:
            latency: Seconds before every reply.
            faults: Further options of `python -m evalframe.testing`, by name.
        """
        self._command = [sys.executable, "-m", "evalframe.testing", "--latency", str(latency)]
        for name, value in (faults or {}).items():
            self._command += [f"--{name}", str(value)]
        self.url = ""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, text=True, env=environment()
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            message = "the scripted server did not start"
            raise WorkerError(message)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
