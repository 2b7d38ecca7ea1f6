"""CSV and TSV: every column is text, and only an empty field without quotes is null."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import IO, Any

import pyarrow as pa

from evalframe.core.errors import listed
from evalframe.data.problems import BadFileError

_BLOCK_BYTES = 1 << 24
_LARGEST_BLOCK_BYTES = 1 << 30


def table(opened: Callable[[], IO[bytes]], *, delimiter: str) -> pa.Table:
    """The file as a table of large_string columns.

    Args:
        opened: Opens the file anew; a damaged file is read once more to find the line.
        delimiter: What stands between two fields.

    Raises:
        BadFileError: The file is damaged; names the line.
    """
    names = _header(opened, delimiter)
    block = _BLOCK_BYTES
    while True:
        try:
            with opened() as stream:
                counting = _QuoteCounter(stream)
                found = _parsed(counting, names, delimiter, block)
        except (pa.ArrowInvalid, UnicodeDecodeError) as exc:
            if "straddling" in str(exc) and block < _LARGEST_BLOCK_BYTES:
                # A row longer than a block: Arrow asks for larger blocks.
                block *= 8
                continue
            raise BadFileError(_diagnosis(opened, names, delimiter) or f"{exc}") from None
        # Arrow closes an open quote at the end of the file by itself, so a torn file looks whole.
        if counting.quotes % 2 and (torn := _diagnosis(opened, names, delimiter)) is not None:
            raise BadFileError(torn)
        return found


def _header(opened: Callable[[], IO[bytes]], delimiter: str) -> list[str]:
    with opened() as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            names = next((row for row in csv.reader(text, delimiter=delimiter) if row), None)
        except (UnicodeDecodeError, csv.Error):
            names = None
            encoding = _first_undecodable(opened)
            if encoding is not None:
                raise BadFileError(encoding) from None
        finally:
            text.detach()
    if names is None:
        message = "it has no header line. The first line must name the columns."
        raise BadFileError(message)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"its header names {listed(twice)} more than once. Give each column its own name."
        raise BadFileError(message)
    return names


class _QuoteCounter(io.RawIOBase):
    """A stream that counts the quotes that pass through it, and ends with a line's end.

    Arrow refuses a header without one, even where nothing follows it.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._last = b"\n"
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._last = data[-1:] or self._last
        if len(data) < size and self._last not in b"\r\n":
            data += b"\n"
            self._last = b"\n"
        self.quotes += data.count(b'"')
        return data


def _parsed(stream: Any, names: list[str], delimiter: str, block: int) -> pa.Table:
    from pyarrow import csv as arrow_csv

    found = arrow_csv.read_csv(
        stream,
        read_options=arrow_csv.ReadOptions(block_size=block),
        parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.large_string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    if found.column_names != names:
        message = (
            f"its header was read in two ways: {listed(names)} and {listed(found.column_names)}."
        )
        raise BadFileError(message)
    return found


def _diagnosis(opened: Callable[[], IO[bytes]], names: list[str], delimiter: str) -> str | None:
    """The first thing that is wrong with the file, None where all seems well."""
    encoding = _first_undecodable(opened)
    if encoding is not None:
        return encoding
    with opened() as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        rows = csv.reader(text, delimiter=delimiter, strict=True)
        line = 1
        try:
            for row in rows:
                if row and len(row) != len(names):
                    return f"line {line} has {len(row)} fields, and the header has {len(names)}."
                line = rows.line_num + 1
        except csv.Error as exc:
            return f"the row that begins in line {line} is damaged: {exc}."
        finally:
            text.detach()
    return None


def _first_undecodable(opened: Callable[[], IO[bytes]]) -> str | None:
    with opened() as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError as exc:
                way = "Save it as UTF-8, or pass pd.read_csv(..., encoding=...)."
                return f"line {number} is not UTF-8 ({exc.reason}). {way}"
    return None
