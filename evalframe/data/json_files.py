"""JSON and JSON Lines, read by Python's own parser: text stays text.

(Arrow's parser would turn text that looks like a time into a time.)
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import IO, Any

from evalframe.data.problems import BadFileError

_MORE_ROWS = "If each line is an object of its own, name the file .jsonl."


def lines(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file; blank lines are skipped.

    Raises:
        BadFileError: A line is no JSON object; names the line.
    """
    for number, raw in enumerate(stream, start=1):
        line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        if not line.strip():
            continue
        where = f"line {number}"
        value = _parsed(line, where)
        if not isinstance(value, dict):
            message = (
                f"{where} is {_kind(value)}, not an object. Each line must be one row: {{...}}."
            )
            raise BadFileError(message)
        yield value


def document(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a JSON file that holds an array of them.

    Raises:
        BadFileError: It holds something else; names the place.
    """
    raw = stream.read().removeprefix(codecs.BOM_UTF8)
    value = _parsed(raw, "it")
    if not isinstance(value, list):
        message = f"it holds {_kind(value)}, not an array of objects: [{{...}}, ...]. {_MORE_ROWS}"
        raise BadFileError(message)
    for position, row in enumerate(value):
        if not isinstance(row, dict):
            message = f"item {position} of the array is {_kind(row)}, not an object."
            raise BadFileError(message)
        yield row


def _parsed(raw: bytes, where: str) -> Any:
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as exc:
        if where == "it":
            before = raw.count(b"\n", 0, exc.start)
            where = f"line {before + 1}"
        message = f"{where} is not UTF-8 ({exc.reason}). Save the file as UTF-8."
        raise BadFileError(message) from None
    except json.JSONDecodeError as exc:
        if where == "it":
            hint = f" {_MORE_ROWS}" if exc.msg == "Extra data" else ""
            where = f"line {exc.lineno}"
        else:
            hint = " Was the writer stopped in the middle of it? Mend or remove it."
        message = f"{where} is not valid JSON: {exc.msg} at column {exc.colno}.{hint}"
        raise BadFileError(message) from None
    except (ValueError, RecursionError) as exc:
        message = f"{where} cannot be parsed: {exc}."
        raise BadFileError(message) from None


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a text", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")
