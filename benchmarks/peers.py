"""The peers: which versions, their environments, and the commands that run them.

Each starts from what its users have and ends with its own result object; none is asked for
evalframe's columns. Progress, printing and telemetry are off.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
INSTALL_SECONDS = 900


@dataclass(frozen=True)
class Peer:
    """A toolkit to compare with, pinned."""

    package: str
    version: str
    script: str
    also: tuple[str, ...] = ()
    """What it needs besides; with it, its environment is another one."""

    @property
    def requirement(self) -> str:
        """What pip installs."""
        return " ".join([f"{self.package}=={self.version}", *self.also])

    def command(self, envs: Path, *arguments: object) -> list[str]:
        """Give the command of its worker."""
        return [str(self._python(envs)), str(HERE / self.script), *map(str, arguments)]

    def install(self, envs: Path) -> str | None:
        """Make its environment unless it is there; give the reason if it cannot be had."""
        done = self._folder(envs) / "installed.txt"
        there = done.exists() and self._python(envs).exists()
        if there and done.read_text() == self.requirement:
            return None
        try:
            venv.create(self._folder(envs), with_pip=True, clear=True)
            pip = [str(self._python(envs)), "-m", "pip", "install", "--quiet"]
            installed = subprocess.run(
                [*pip, *self.requirement.split()],
                capture_output=True,
                text=True,
                check=False,
                timeout=INSTALL_SECONDS,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return f"{type(error).__name__}: {error}"
        if installed.returncode != 0:
            errors = [line for line in installed.stderr.splitlines() if line.startswith("ERROR")]
            return errors[-1][:300] if errors else installed.stderr.strip()[-300:]
        done.write_text(self.requirement)
        return None

    def _python(self, envs: Path) -> Path:
        folder, name = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
        return self._folder(envs) / folder / name

    def _folder(self, envs: Path) -> Path:
        return envs / (f"{self.package}-judge" if self.also else self.package)


PEERS = (
    Peer("arize-phoenix-evals", "3.9.4", "phoenix_worker.py"),
    Peer("pydantic-evals", "2.62.0", "pydantic_evals_worker.py"),
    Peer("deepeval", "4.3.1", "deepeval_worker.py"),
)
OPENAI = "openai==3.57.0"
JUDGE_PEERS = (
    Peer("arize-phoenix-evals", "3.9.4", "phoenix_judge_worker.py", (OPENAI,)),
    Peer("pydantic-evals", "2.62.0", "pydantic_evals_judge_worker.py", (OPENAI, "tiktoken")),
    Peer("autoevals", "0.4.1", "autoevals_judge_worker.py", (OPENAI,)),
)
