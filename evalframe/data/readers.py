"""From any source of data to the frame of a Dataset.

Owns   what is taken and what is refused, with the way out. Other libraries are known by what
       their objects can do; none is imported.
Leaves files to files.py, rows to records.py, Arrow tables to tables.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from evalframe.core.errors import DatasetError, listed
from evalframe.core.nested import has_surrogate
from evalframe.data.files import frame_of_files
from evalframe.data.records import frame_of_rows
from evalframe.data.tables import frame_from

_TAKEN = (
    "Dataset takes a pandas, pyarrow, polars, DuckDB or Hugging Face table, a list of dicts or of "
    "Examples, or the path of a file."
)


def read(data: Any) -> pd.DataFrame:
    """The frame of a source: a shallow copy of a pandas one, else Arrow-backed.

    Raises:
        DatasetError: The source is of no kind that is read, or cannot be read; the message
            says what to pass instead.
    """
    if isinstance(data, pd.DataFrame):
        frame = data.copy(deep=False)
    elif isinstance(data, (str, os.PathLike)):
        frame = frame_of_files(os.fspath(data))
    elif isinstance(data, (list, tuple)):
        frame = frame_of_rows(data)
    else:
        frame = frame_from(_table(data))
    _check_labels(frame)
    return frame


def _table(data: Any) -> Any:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    refusal = _refusal(data)
    if refusal is not None:
        message = f"{refusal} {_TAKEN}"
        raise DatasetError(message)
    if _library(data) == "datasets" and hasattr(data, "with_format"):
        # Through its own slicing, which minds the rows that a filter or a shuffle chose.
        return data.with_format("arrow")[:]
    if _library(data) == "polars" and hasattr(data, "to_arrow"):
        return data.to_arrow()
    if _library(data) == "duckdb" and hasattr(data, "to_arrow_table"):
        return data.to_arrow_table()
    return _exported(data)


def _exported(data: Any) -> Any:
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).read_all()
        return pa.Table.from_batches([pa.record_batch(data)])
    except (pa.ArrowException, TypeError, ValueError) as exc:
        message = f"{_named(data)} gave no Arrow table: {exc}. {_TAKEN}"
        raise DatasetError(message) from exc


def _library(data: Any) -> str:
    return type(data).__module__.partition(".")[0]


def _named(data: Any) -> str:
    name = type(data).__name__
    return f"{'An' if name[0] in 'aeiouAEIOU' else 'A'} {name}"


def _refusal(data: Any) -> str | None:
    """Why a source is not read and what to do instead, None for one that is."""
    name = type(data).__name__
    if name in {"DatasetDict", "IterableDatasetDict"}:
        return f"A {name} holds several datasets: pick a split, data[...] of {listed(data)}."
    if isinstance(data, Mapping):
        return "A dict may be one row or some columns: pass [data], or pd.DataFrame(data)."
    if name in {"Series", "ChunkedArray"} or isinstance(data, (pd.Index, pa.Array)):
        return f"{_named(data)} is a single column: name it, pd.DataFrame({{'output': data}})."
    if name == "IterableDataset":
        return "An IterableDataset is a stream: pass list(data.take(1000)), or load it whole."
    if name == "LazyFrame":
        return "A LazyFrame holds no rows yet: pass data.collect()."
    if isinstance(data, Iterator):
        return f"{_named(data)} can be read only once: pass list(data)."
    readable = ("__arrow_c_stream__", "__arrow_c_array__")
    if _library(data) in {"datasets", "duckdb"} or any(hasattr(data, way) for way in readable):
        return None
    for way in ("to_pandas", "toPandas", "compute", "collect"):
        if hasattr(data, way):
            return f"{_named(data)} is not read as it is: pass data.{way}()."
    return f"{_named(data)} is no table."


def _check_labels(frame: pd.DataFrame) -> None:
    if isinstance(frame.columns, pd.MultiIndex):
        message = (
            "The columns are a MultiIndex. Flatten it first: "
            "df.columns = ['_'.join(map(str, names)) for names in df.columns]."
        )
        raise DatasetError(message)
    torn = [label for label in frame.columns if isinstance(label, str) and has_surrogate(label)]
    if torn:
        message = (
            f"The column name {torn[0]!r} holds a lone surrogate, which is no text. Rename it."
        )
        raise DatasetError(message)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()].unique()
        message = (
            f"Several columns have the same name: {listed(twice)}. Give each its own, "
            "df.columns = [...], or keep the first: df.loc[:, ~df.columns.duplicated()]."
        )
        raise DatasetError(message)
