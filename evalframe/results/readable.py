"""Arrow types as files hold them: only such as parquet takes and other readers know.

readable         a type -> the one it has in a file (no views, no dictionaries, no extensions)
converted        an array -> the same values in another type
check_writable   a type that parquet has no place for is refused
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from evalframe.core.errors import UnsupportedValueError

# A pa.Array or pa.ChunkedArray; the stubs know each by its type, which only the run knows.
Cells = Any


def readable(kind: Any) -> Any:
    """The type that stands for `kind` in a file, inside lists and structs too."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return readable(kind.storage_type)
    if types.is_dictionary(kind):
        return readable(kind.value_type)
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    # Parquet counts no seconds: Arrow 18 multiplies on its own, unchecked.
    if types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("ms", kind.tz)
    if types.is_time32(kind):
        return pa.time32("ms")
    return _readable_nested(kind) if types.is_nested(kind) else kind


def _readable_nested(kind: Any) -> Any:
    types = pa.types
    if types.is_map(kind):
        return pa.map_(readable(kind.key_type), readable(kind.item_type))
    # Arrow 18 does not write a null in a list of fixed size.
    if types.is_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(readable(kind.value_type))
    if types.is_large_list(kind) or types.is_list_view(kind) or types.is_large_list_view(kind):
        return pa.large_list(readable(kind.value_type))
    if types.is_struct(kind):
        fields = [kind.field(position) for position in range(kind.num_fields)]
        return pa.struct([field.with_type(readable(field.type)) for field in fields])
    return kind


def converted(array: Cells, kind: Any) -> Cells:
    """The values as another type, by way of Python where Arrow has no cast.

    Raises:
        pyarrow.ArrowInvalid: Some value does not fit.
    """
    if array.type.equals(kind, check_metadata=True):
        return array
    # Arrow casts a list view with a null in it to a list with torn offsets (pyarrow 26).
    if "list_view" not in str(array.type):
        try:
            made = array.cast(kind)
            # A cast leaves values behind nulls of a fixed size; taking all leaves them out.
            fixed = pa.types.is_fixed_size_list(array.type) and array.null_count
            return made.take(pa.array(range(len(made)), pa.int64())) if fixed else made
        except pa.ArrowNotImplementedError:
            pass
    made = pa.array(array.to_pylist(), type=kind)
    return joined([made], kind) if isinstance(array, pa.ChunkedArray) else made


def check_writable(name: Any, kind: Any) -> None:
    """See that parquet takes the type.

    Raises:
        UnsupportedValueError: It does not.
    """
    import pyarrow.parquet as pq

    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_large_string(kind):
        return
    try:
        pq.write_table(pa.schema([("column", kind)]).empty_table(), pa.BufferOutputStream())
    except (pa.ArrowException, NotImplementedError) as exc:
        message = (
            f"Column {name!r}: parquet has no place for the Arrow type {kind} ({exc}). "
            "Convert the column to another type."
        )
        raise UnsupportedValueError(message) from None


def joined(chunks: list[Any], kind: Any) -> Cells:
    """The chunks as one array."""
    return pa.chunked_array(chunks, type=kind)
