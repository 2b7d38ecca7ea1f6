"""One contender of contenders.py in a process of its own.

python own_worker.py write <rows> <path>                 the input, as an Arrow file
python own_worker.py verify <contender> <path>           compares with its yardstick, whole frames
python own_worker.py time <contender> <path>             answers the parent, see serving.py
python own_worker.py memory <contender> <path>           peak memory of one run, as one JSON line
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
from contenders import CONTENDERS, REFERENCES
from memory import Peak
from serving import serve
from workload import columns

if TYPE_CHECKING:
    from collections.abc import Callable


def write(rows: int, path: Path) -> None:
    """Write the input, so that reading it costs no Python object per value."""
    text = pa.large_string()
    table = pa.table({name: pa.array(values, text) for name, values in columns(rows).items()})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read(path: Path) -> pd.DataFrame:
    """Read the input: a plain pandas frame of `str` columns."""
    with pa.OSFile(str(path), "rb") as source:
        return pa.ipc.open_file(source).read_all().to_pandas()


def verify(contender: str, path: Path) -> None:
    """Compare a contender's frame with the plain loop's: names, types, index and values.

    Raises:
        AssertionError: They differ; pandas says where.
    """
    frame = read(path)
    before = frame.copy(deep=True)
    result = CONTENDERS[contender](frame)
    expected = REFERENCES[contender](frame)
    pd.testing.assert_frame_equal(result, expected, check_exact=True)
    pd.testing.assert_frame_equal(frame, before, check_exact=True)


def time(contender: str, path: Path) -> None:
    """Serve one contender; every result is dropped before the next call."""
    frame = read(path)
    run = CONTENDERS[contender]
    serve(lambda: run(frame), lambda result: {"rows": float(len(result))})


def memory(contender: str, path: Path) -> None:
    """Print the peak above the imports, and the bytes of the resulting frame, input included."""
    if contender.startswith("evalframe"):
        import evalframe  # noqa: F401 - belongs to the imports, before the peak starts
    peak = Peak()
    result = CONTENDERS[contender](read(path))
    grown = peak.bytes()
    held = int(result.memory_usage(index=True, deep=True).sum())
    print(json.dumps({"peak": grown, "held": held, "baseline": peak.baseline}))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        job: dict[str, Callable[[str, Path], None]] = {
            "verify": verify,
            "time": time,
            "memory": memory,
        }
        job[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
