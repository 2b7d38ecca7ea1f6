"""Files by path or glob, told apart by suffix.

Owns   which files are meant, opening and unpacking them, Parquet and Arrow files, and several
       files as one table.
Leaves CSV to csv_files.py, JSON to json_files.py.
"""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from evalframe.core.errors import DatasetError, listed
from evalframe.data import csv_files, json_files
from evalframe.data.merge import merged
from evalframe.data.problems import BadFileError
from evalframe.data.records import Records
from evalframe.data.tables import frame_from

_KINDS = {
    ".parquet": "Parquet",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".json": "JSON",
    ".jsonl": "JSON",
    ".ndjson": "JSON",
}
_PACKINGS = {".gz": "gzip", ".zst": "zstd"}
_READ = "What is read: " + ", ".join(_KINDS) + ", each also with .gz or .zst after it."
_LONGEST_PATH = 200


class _File(NamedTuple):
    path: str
    suffix: str
    packing: Any

    @property
    def kind(self) -> str:
        return _KINDS[self.suffix]

    def opened(self) -> Any:
        if self.packing is None:
            return Path(self.path).open("rb")
        stream: Any = pa.input_stream(self.path, compression=self.packing)
        return io.BufferedReader(stream)


def frame_of_files(source: str | bytes) -> pd.DataFrame:
    """The frame of one file, or of all files that a glob matches, in the order of their names.

    Raises:
        DatasetError: Nothing can be read, or the files do not fit together; names the file.
    """
    files = [_file(path) for path in _matches(os.fsdecode(source))]
    kinds = {file.kind for file in files}
    if len(kinds) > 1:
        why = f"it matches files of several kinds ({listed(sorted(kinds))}). Use a narrower glob."
        raise _cannot_read(os.fsdecode(source), why)
    if kinds == {"JSON"}:
        records = Records()
        for file in files:
            _reading(file, lambda file: _add_rows(file, records))
        return records.frame()
    tables = [_reading(file, _table) for file in files]
    return frame_from(merged(tables, [file.path for file in files]))


def _matches(source: str) -> Sequence[str]:
    path = os.path.expanduser(source)  # noqa: PTH111 - a Path would lose a trailing slash
    if "\n" in source or len(source) > _LONGEST_PATH:
        raise _cannot_read(source[:40] + "…", "this is no path. Pass rows as a list of dicts.")
    if "://" in source:
        why = "addresses are not fetched. Download it, or pass pd.read_parquet(...) and the like."
        raise _cannot_read(source, why)
    if Path(path).is_file():
        return [path]
    if Path(path).is_dir():
        why = f"it is a directory. Pass a glob: {str(Path(source) / '*.parquet')!r}."
        raise _cannot_read(source, why)
    if not glob.has_magic(path):
        _file(source)
        why = f"there is no such file in {str(Path(path).absolute().parent)!r}."
        raise _cannot_read(source, why)
    matches = glob.glob(path, recursive=True)  # noqa: PTH207 - a pattern may be absolute
    found = [match for match in sorted(matches) if Path(match).is_file()]
    if not found:
        raise _cannot_read(source, "no file matches this pattern.")
    return found


def _file(path: str) -> _File:
    name = Path(path).name.lower()
    stem, packing = name, None
    for ending, codec in _PACKINGS.items():
        if name.endswith(ending):
            stem, packing = name.removesuffix(ending), codec
    suffix = Path(stem).suffix
    if suffix not in _KINDS:
        why = f"the suffix {suffix!r} is unknown." if suffix else "its name has no suffix."
        raise _cannot_read(path, f"{why} {_READ}")
    return _File(path, suffix, packing)


def _reading(file: _File, job: Callable[[_File], Any]) -> Any:
    try:
        return job(file)
    except BadFileError as exc:
        raise _cannot_read(file.path, str(exc)) from None
    except (OSError, pa.ArrowException) as exc:
        raise _cannot_read(file.path, f"{exc}") from exc


def _cannot_read(path: str, why: str) -> DatasetError:
    return DatasetError(f"Cannot read {path!r}: {why}")


def _add_rows(file: _File, records: Records) -> None:
    with file.opened() as stream:
        whole = file.suffix == ".json"
        rows = json_files.document(stream) if whole else json_files.lines(stream)
        for row in rows:
            records.add(row)


def _table(file: _File) -> pa.Table:
    if file.kind == "CSV":
        return csv_files.table(file.opened, delimiter="\t" if file.suffix == ".tsv" else ",")
    with file.opened() as stream:
        # Parquet is read from its end, so a packed file is unpacked whole.
        source: Any = pa.BufferReader(stream.read()) if file.packing else pa.PythonFile(stream)
        if file.kind == "Parquet":
            from pyarrow import parquet

            return parquet.ParquetFile(source).read()
        magic = source.read(6)
        source.seek(0)
        if magic == b"ARROW1":
            return pa.ipc.open_file(source).read_all()
        return pa.ipc.open_stream(source).read_all()
