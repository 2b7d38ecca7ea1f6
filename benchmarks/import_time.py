"""CPU seconds of `import evalframe` above importing pandas, pyarrow and pydantic together.

    python benchmarks/import_time.py [--smoke]

Every round starts two fresh processes: one imports the three and then evalframe and times the
second step by itself; the other imports the three only, which shows how far this machine's
figures wander. The first round, which may compile, is dropped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from statistics import median

from processes import environment

LIMIT_SECONDS = 0.1
ROUNDS = 9
_BASE = "import pandas, pyarrow, pydantic"
_TIMED = f"""
import json, time
start = time.process_time()
{_BASE}
base = time.process_time()
{{also}}
print(json.dumps({{{{"base": base - start, "above": time.process_time() - base}}}}))
"""


@dataclass(frozen=True)
class ImportTime:
    """Medians over the rounds, in CPU seconds."""

    above: float
    base: float
    base_alone: float
    rounds: int

    @property
    def passed(self) -> bool:
        """Whether evalframe stays within its 0.1 s."""
        return self.above <= LIMIT_SECONDS

    def __str__(self) -> str:
        return (
            f"import evalframe: {self.above:.3f} s CPU above pandas, pyarrow and pydantic "
            f"({self.base:.2f} s; {self.base_alone:.2f} s in the processes without evalframe), "
            f"median of {self.rounds}"
        )


def measure(rounds: int = ROUNDS) -> ImportTime:
    """Start the pairs of processes and give the medians."""
    _once("import evalframe")
    _once("")
    pairs = [(_once("import evalframe"), _once("")) for _ in range(rounds)]
    return ImportTime(
        above=median(ours["above"] for ours, _ in pairs),
        base=median(ours["base"] for ours, _ in pairs),
        base_alone=median(alone["base"] for _, alone in pairs),
        rounds=rounds,
    )


def _once(also: str) -> dict[str, float]:
    # Without compiled files every import would compile, which no user's does.
    variables = {
        name: value for name, value in environment().items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", _TIMED.format(also=also)],
        capture_output=True,
        text=True,
        check=True,
        env=variables,
    )
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def main() -> None:
    """Print the figure and whether it passes; a slow import is no failure of the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one round: does it run at all")
    rounds = 1 if parser.parse_args().smoke else ROUNDS
    result = measure(rounds)
    verdict = "pass" if result.passed else "FAIL"
    print(f"{result}\n{verdict}: at most {LIMIT_SECONDS} s")


if __name__ == "__main__":
    main()
