"""The bytes of a journal file: an Arrow IPC stream whose every message carries its checksum.

Any Arrow reader opens such a file. The stream has no end mark, since it may be continued.

    schema message    the file's columns; "evalframe.journal" in its metadata is the seal
    batch message     some rows; the seal is the metadata of the message
    ...

The seal says the format's version, the CRC-32 of the whole message (its own digits as zeros)
and the length of the message's body. With it a message that was cut off, which a killed process
leaves at the end, is told from one whose bytes were changed.

schema_message, batch_message   what to write
Scan, columns_in                what is in a file, up to where it is whole

Source: https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from evalframe.core.errors import JournalError

FORMAT = 1

_SEAL_KEY = "evalframe.journal"
_SEAL = re.compile(rb"evalframe\.journal format=(\d{4}) crc=([0-9a-f]{8}) body=([0-9a-f]{16})")
_BLANK = f"evalframe.journal format={FORMAT:04d} crc={0:08x} body={0:016x}"
_UNSEALED = {_SEAL_KEY: _BLANK}
_BLANK_BYTES = _BLANK.encode()
_CHECKSUM_AT = _BLANK_BYTES.index(b"crc=") + len(b"crc=")
_BODY_AT = _BLANK_BYTES.index(b"body=") + len(b"body=")
_DIGITS = 8  # of the checksum

# Given, so that pyarrow does not look for its defaults in the environment at every batch.
_OPTIONS = pa.ipc.IpcWriteOptions()

# https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format
_HEAD = struct.Struct("<Ii")
_CONTINUATION = 0xFFFFFFFF
_MARK = b"\xff\xff\xff\xff"
_ALIGNED = 8


def schema_message(columns: pa.Schema) -> bytes:
    """The beginning of a file with these columns."""
    entries = {**(columns.metadata or {}), _SEAL_KEY: _BLANK}
    return _sealed(columns.with_metadata(entries).serialize().to_pybytes())


def batch_message(rows: pa.RecordBatch) -> bytes:
    """Some rows for a file that begins with the schema of `rows`."""
    sink = pa.BufferOutputStream()
    # Not closed: that would only write the end mark.
    pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS).write_batch(rows, _UNSEALED)
    written = memoryview(sink.getvalue())
    # A stream begins with its schema, which has no body.
    _, length = _HEAD.unpack_from(written)
    return _sealed(written[_HEAD.size + length :])


def _sealed(message: bytes | memoryview) -> bytes:
    """The message with its blank seal filled in."""
    data = bytearray(message)
    _, length = _HEAD.unpack_from(data)
    body = len(data) - _HEAD.size - length
    at = data.index(_BLANK_BYTES)
    data[at + _BODY_AT : at + len(_BLANK_BYTES)] = b"%016x" % body
    checksum = at + _CHECKSUM_AT
    data[checksum : checksum + _DIGITS] = b"%08x" % zlib.crc32(data)
    return bytes(data)


class _CutOffError(Exception):
    """The file ends inside a message."""


class _DamagedError(Exception):
    """What stands here is no whole message."""


class _NewerError(Exception):
    """The message is of a later format."""


def _message(file: BinaryIO, left: int) -> bytes:
    """The message at the file's position, checked.

    Args:
        file: Read on from its position.
        left: Bytes from there to its end.
    """
    head = file.read(_HEAD.size)
    if not _MARK.startswith(head[: len(_MARK)]):
        raise _DamagedError
    if len(head) < _HEAD.size:
        raise _CutOffError
    _, length = _HEAD.unpack(head)
    if length <= 0:
        raise _DamagedError
    left -= _HEAD.size
    if length > left:
        raise _CutOffError
    metadata = file.read(length)
    seal = _SEAL.search(metadata)
    if seal is None:
        raise _DamagedError
    if int(seal[1]) > FORMAT:
        raise _NewerError
    body = int(seal[3], 16)
    if body > left - length:
        raise _CutOffError
    message = head + metadata + file.read(body)
    at = len(head) + seal.start(2)
    blank = zlib.crc32(b"0" * _DIGITS, zlib.crc32(memoryview(message)[:at]))
    if zlib.crc32(memoryview(message)[at + _DIGITS :], blank) != int(seal[2], 16):
        raise _DamagedError
    return message


class Scan:
    """Goes through a file once, message by message.

    Attributes:
        schema: The file's columns; None if it was cut off before it had any.
        end: Up to here the file is whole, as far as it was read.
        rows: Rows that were read.
        batches: Batches that were read.
    """

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        self.path = path
        self.schema: pa.Schema | None = None
        self.end = 0
        self.rows = 0
        self.batches = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches, to the end or to a torn tail.

        Raises:
            JournalError: The file is damaged, is no journal or a newer one, or cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                yield from self._batches(file)
        except OSError as exc:
            if isinstance(exc, JournalError):
                raise
            message = f"The journal {str(self.path)!r} cannot be read: {exc.strerror or exc}."
            raise JournalError(message) from exc

    def _batches(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        size = os.fstat(file.fileno()).st_size
        while self.end < size:
            try:
                message = _message(file, size - self.end)
                batch = self._decoded(message)
            except _NewerError:
                raise self._newer() from None
            except _CutOffError:
                if _message_follows(file, self.end, size):
                    raise self._damaged() from None
                return
            except (_DamagedError, pa.ArrowException):
                if _only_zeros(file, self.end, size):
                    return
                raise self._damaged() from None
            self.end += len(message)
            if batch is not None:
                self.rows += len(batch)
                self.batches += 1
                yield batch

    def _decoded(self, message: bytes) -> pa.RecordBatch | None:
        buffer = pa.py_buffer(message)
        if self.schema is None:
            self.schema = pa.ipc.read_schema(buffer)
            return None
        return pa.ipc.read_record_batch(buffer, self.schema)

    def _newer(self) -> JournalError:
        return JournalError(
            f"The journal {str(self.path)!r} was written by a newer evalframe. Run: "
            "pip install --upgrade evalframe, or name another run_dir."
        )

    def _damaged(self) -> JournalError:
        if self.schema is None:
            return JournalError(
                f"{str(self.path)!r} is no journal of evalframe, or its beginning is damaged. "
                "Move the file away: its cells are run again, and replies that were paid for "
                "come from the run_dir's reply cache."
            )
        return JournalError(
            f"The journal {str(self.path)!r} is damaged at byte {self.end:,}, after "
            f"{self.rows:,} whole cells: something else has changed the file, or the disk fails. "
            "Restore it from a backup, or move it away: its cells are run again, and replies that "
            "were paid for come from the run_dir's reply cache."
        )


def columns_in(path: Path) -> pa.Schema | None:
    """The columns of a file; None if it was cut off before it had any.

    Raises:
        JournalError: It is no journal or a newer one, or cannot be read.
    """
    scan = Scan(path)
    next(iter(scan), None)
    return scan.schema


def _only_zeros(file: BinaryIO, start: int, size: int) -> bool:
    """Whether nothing was written from `start` on: a power failure may leave a file that long."""
    file.seek(start)
    for _ in range(start, size, mmap.PAGESIZE):
        if file.read(mmap.PAGESIZE).strip(b"\0"):
            return False
    return True


def _message_follows(file: BinaryIO, start: int, size: int) -> bool:
    """Whether a whole message stands anywhere after the one at `start`."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = start
        while (at := content.find(_MARK, at + 1)) >= 0:
            if at % _ALIGNED:
                continue
            file.seek(at)
            try:
                _message(file, size - at)
            except (_CutOffError, _DamagedError, _NewerError):
                continue
            return True
    return False
