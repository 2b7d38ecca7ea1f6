"""Parquet files that give the same frame back, and that every other reader opens.

Owns   the file: writing it whole or not at all, a row group at a time, and reading it.
Leaves what lies in it to layout.py.

A file holds two schema entries: "pandas", for plain pandas, and "evalframe", which says how to
make labels, dtypes, index and attrs again. Columns of Python values that no Arrow type keeps
are JSON text, marked in their field's metadata.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from evalframe.core.errors import DatasetError, listed, nearest
from evalframe.results.layout import KEY, Layout, adopt, lay_out, rebuild
from evalframe.results.whole_file import finished

# A row group: what a writer holds at a time and a reader takes at once.
GROUP_BYTES = 64 * 2**20
GROUP_ROWS = range(1_024, 131_073)

# With checksums a damaged page is an error in every reader, not another number.
_WRITING: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}


def to_parquet(
    frame: pd.DataFrame, path: str | os.PathLike[str], *, drop: Sequence[Hashable] = ()
) -> None:
    """Write the whole frame to a parquet file that gives it back.

    `evalframe.read_parquet` restores dtypes, column labels, index and attrs. Plain pandas,
    polars, DuckDB, Spark and pyarrow open the file too; there, columns of mixed Python values
    are JSON text. The file is complete or not there: it takes its name only when all of it is
    written, and a file of that name stays until then.

    An entry of `frame.attrs` that JSON text cannot keep is left out with a warning.

    Args:
        frame: Any frame with distinct, flat column names.
        path: Where to; its folder must be there.
        drop: Columns that are not written.

    Raises:
        DatasetError: The folder is not there, `path` is one, column names are not distinct,
            or `drop` names a column that is not there.
        UnsupportedValueError: Columns hold values that no file can keep; all are named.

    Examples:
        >>> import evalframe as ef
        >>> scored = ef.run_experiment([{"output": "4"}], evaluators=[ef.OneOf(["4", "four"])])
        >>> ef.to_parquet(scored, "scored.parquet")
        >>> ef.read_parquet("scored.parquet").equals(scored)
        True
    """
    target = _target(path)
    kept = _without(frame, drop)
    layout = lay_out(kept)
    with finished(target) as unfinished:
        _write(layout, len(kept), unfinished)


def _target(path: str | os.PathLike[str]) -> Path:
    target = Path(os.path.realpath(Path(path).expanduser()))
    if target.is_dir():
        message = f"Cannot write {str(path)!r}: it is a folder. Add a file name: 'scored.parquet'."
        raise DatasetError(message)
    if not target.parent.is_dir():
        message = (
            f"Cannot write {str(path)!r}: there is no folder {str(target.parent)!r}. "
            "Make it first (mkdir), or choose another path."
        )
        raise DatasetError(message)
    return target


def _without(frame: pd.DataFrame, drop: Sequence[Hashable]) -> pd.DataFrame:
    """The frame without dropped columns; a view, not a copy."""
    if not isinstance(frame, pd.DataFrame):
        message = f"to_parquet writes a pandas DataFrame, not {type(frame).__qualname__}."
        raise DatasetError(message)
    if isinstance(frame.columns, pd.MultiIndex):
        message = (
            "Columns with several levels cannot be written. Flatten them: "
            "frame.columns = ['.'.join(map(str, name)) for name in frame.columns]."
        )
        raise DatasetError(message)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()].unique()
        message = (
            f"Several columns are named {listed(twice)}. Rename them, or keep the first of each: "
            "frame.loc[:, ~frame.columns.duplicated()]."
        )
        raise DatasetError(message)
    names = [drop] if isinstance(drop, str) else list(drop)
    unknown = [name for name in names if name not in frame.columns]
    if unknown:
        near = [found for name in unknown if (found := nearest(name, frame.columns)) is not None]
        hint = f" Did you mean {listed(near)}?" if near else ""
        message = (
            f"drop names {listed(unknown)}, which the frame does not have.{hint} "
            f"It has: {listed(frame.columns)}."
        )
        raise DatasetError(message)
    return frame.drop(columns=names) if names else frame


def _write(layout: Layout, length: int, path: Path) -> None:
    import pyarrow.parquet as pq

    if not layout.columns:
        length = 0
    try:
        with pq.ParquetWriter(str(path), layout.schema, **_WRITING) as writer:
            for rows in _groups(layout, length):
                writer.write_table(_group(layout, rows))
    except pa.ArrowInvalid as exc:
        message = f"Parquet cannot hold a value of this frame: {exc}"
        raise DatasetError(message) from exc
    except OSError as exc:
        why = exc.strerror or str(exc).replace(str(path), repr(path.name))
        message = f"Cannot write into {str(path.parent)!r}: {why}. Choose another path."
        raise DatasetError(message) from exc


def _groups(layout: Layout, length: int) -> Iterator[slice]:
    """The rows of each row group, by the size of the first rows; one group for no rows."""
    if length == 0:
        yield slice(0, 0)
        return
    probe = slice(0, min(length, GROUP_ROWS.start))
    per_row = max(_group(layout, probe).nbytes // probe.stop, 1)
    size = min(max(GROUP_BYTES // per_row, GROUP_ROWS.start), GROUP_ROWS.stop - 1)
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


def _group(layout: Layout, rows: slice) -> pa.Table:
    cells = [column.cells(rows) for column in layout.columns]
    return pa.Table.from_arrays(cells, schema=layout.schema)


def read_parquet(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The frame that `to_parquet` wrote: dtypes, labels, index and attrs included.

    A file of another origin gives an Arrow-backed frame: text as `string`, everything else as
    ArrowDtype, and the index and attrs that pandas noted in it, if any.

    Args:
        path: One local file.

    Returns:
        A new frame.

    Raises:
        DatasetError: The file is not there, is no parquet file, is damaged, or has several
            columns of one name.

    Examples:
        >>> import evalframe as ef
        >>> scored = ef.run_experiment([{"output": "4"}], evaluators=[ef.OneOf(["4", "four"])])
        >>> scored.evals.to_parquet("scored.parquet")
        >>> ef.read_parquet("scored.parquet").evals.names
        ['one_of']
    """
    table = _table(path)
    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        message = (
            f"Cannot read {str(path)!r}: several of its columns are named {listed(twice)}. "
            "Rename them where the file is made."
        )
        raise DatasetError(message)
    entry = (table.schema.metadata or {}).get(KEY)
    try:
        return adopt(table) if entry is None else rebuild(table, entry)
    except (ValueError, TypeError, KeyError, pa.ArrowException) as exc:
        message = (
            f"Cannot read {str(path)!r}: its columns are not what it says of them ({exc}). "
            "pandas.read_parquet gives the bare columns."
        )
        raise DatasetError(message) from exc


def _table(path: str | os.PathLike[str]) -> pa.Table:
    import pyarrow.parquet as pq

    source = Path(path).expanduser()
    if source.is_dir():
        message = f"Cannot read {str(path)!r}: it is a folder. Name one file in it."
        raise DatasetError(message)
    if not source.exists():
        beside = [file.name for file in source.parent.iterdir()] if source.parent.is_dir() else []
        near = nearest(source.name, beside)
        hint = f" Did you mean {str(source.with_name(str(near)))!r}?" if near is not None else ""
        message = f"Cannot read {str(path)!r}: there is no such file.{hint}"
        raise DatasetError(message)
    try:
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            return file.read()
    except (OSError, pa.ArrowException) as exc:
        message = (
            f"Cannot read {str(path)!r}: it is no parquet file, or it is damaged ({exc}). "
            "Other formats are read by evalframe.Dataset(path)."
        )
        raise DatasetError(message) from exc
