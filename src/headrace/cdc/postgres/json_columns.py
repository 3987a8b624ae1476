"""Columns of JSON values from the text of COPY, by whole blocks of rows: the same values as `Described.row` gives.

Most values are JSON already, or become JSON by quotes around them. A column of a block that needs more is converted
value by value. No I/O.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from headrace.cdc.postgres.relation import Described
from headrace.cdc.postgres.times import micros, zoned_timestamp
from headrace.cdc.postgres.types import Convert, read_boolean, read_number
from headrace.cdc.row_batches import binary_array, scalar

_NULL, _TRUE, _FALSE = scalar(b"null"), scalar(b"true"), scalar(b"false")
_MARK, _EMPTY = scalar(b'"'), scalar(b"")
_QUOTE, _BACKSLASH, _SPACE = ord('"'), ord("\\"), ord(" ")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_encode = msgspec.json.Encoder().encode


def text_columns(block: bytes, columns: int) -> list[pa.BinaryArray]:
    """The columns of whole lines of COPY, still escaped."""
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError:
            # A database with the encoding SQL_ASCII may hold any bytes; JSON cannot.
            block = block.decode("utf-8", "replace").encode()
    names = [str(number) for number in range(columns)]
    table = csv.read_csv(
        io.BytesIO(block),
        read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1),
        parse_options=csv.ParseOptions(
            delimiter="\t", quote_char=False, double_quote=False, ignore_empty_lines=False
        ),
        convert_options=csv.ConvertOptions(
            column_types={name: pa.binary() for name in names},
            null_values=["\\N"],
            strings_can_be_null=True,
        ),
    )
    return [
        column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in table.columns
    ]


def json_columns(texts: Sequence[pa.BinaryArray], described: Described) -> list[pa.BinaryArray]:
    conversions = dict(described.conversions)
    return [
        json_column(column, conversions.get(name), unescaped)
        for name, column in zip(described.names, texts, strict=True)
    ]


def unescaped(text: bytes) -> str:
    """A value of COPY as PostgreSQL prints it elsewhere."""
    found = text.decode()
    if "\\" not in found:
        return found
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), found)


def json_column(
    column: pa.BinaryArray, convert: Convert | None, plain: Callable[[bytes], str]
) -> pa.BinaryArray:
    """`plain` is the text of a value, which may be escaped."""
    whole = _strings if convert is None else _BY_COLUMN.get(convert)
    found = None if whole is None else whole(column)
    if found is None:
        found = _one_by_one(column, convert, plain)
    return found.fill_null(_NULL) if found.null_count else found


def _one_by_one(
    column: pa.BinaryArray, convert: Convert | None, plain: Callable[[bytes], str]
) -> pa.BinaryArray:
    values = []
    for text in column.to_pylist():
        if text is None:
            values.append(b"null")
        else:
            found = plain(text)
            values.append(_encode(found if convert is None else convert(found)))
    return binary_array(values)


def _strings(column: pa.BinaryArray) -> pa.BinaryArray | None:
    data = _bytes_of(column)
    if ((data < _SPACE) | (data == _QUOTE) | (data == _BACKSLASH)).any():
        return None
    return _quoted(column)


def _quoted(column: pa.BinaryArray) -> pa.BinaryArray:
    return pc.binary_join_element_wise(_MARK, column, _MARK, _EMPTY)


def _as_they_are(column: pa.BinaryArray) -> pa.BinaryArray:
    return column


def _booleans(column: pa.BinaryArray) -> pa.BinaryArray:
    is_true = pc.equal(column, scalar(b"t"))
    return pc.if_else(is_true, _TRUE, _FALSE)


def _numbers(column: pa.BinaryArray) -> pa.BinaryArray | None:
    """A whole number is printed without a point, an exponent in other digits than JSON's writers use."""
    data = _bytes_of(column)
    if ((data > ord("9")) | (data == ord("+"))).any():
        return None
    has_point = pc.match_substring(column, b".")
    with_point = pc.binary_join_element_wise(column, scalar(b".0"), _EMPTY)
    return pc.if_else(has_point, column, with_point)


def _micros(column: pa.BinaryArray) -> pa.BinaryArray | None:
    try:
        times = column.cast(pa.string()).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None  # infinity, or a year that has not four digits
    return times.cast(pa.int64()).cast(pa.string()).cast(pa.binary())


def _zoned_timestamps(column: pa.BinaryArray) -> pa.BinaryArray | None:
    data = _bytes_of(column)
    if (data > ord("9")).any():
        return None  # infinity, or BC
    is_usual = pc.match_substring_regex(column, rb"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00$")
    if not pc.all(is_usual).as_py():
        return None
    without_zone = pc.binary_replace_slice(column.cast(pa.string()), -3, 2**31 - 1, "Z").cast(pa.binary())
    return _quoted(pc.binary_replace_slice(without_zone, 10, 11, b"T"))


def _bytes_of(column: pa.BinaryArray) -> np.ndarray[Any, Any]:
    """All bytes of all values."""
    _, offsets_buffer, data = column.buffers()
    if data is None or not len(column):
        return np.empty(0, np.uint8)
    offsets = np.frombuffer(offsets_buffer, np.int32)
    return np.frombuffer(data, np.uint8)[offsets[column.offset] : offsets[column.offset + len(column)]]


_BY_COLUMN: dict[Convert, Callable[[pa.BinaryArray], pa.BinaryArray | None]] = {
    int: _as_they_are,
    read_boolean: _booleans,
    read_number: _numbers,
    micros: _micros,
    zoned_timestamp: _zoned_timestamps,
}
"""None: this block has values that need a closer look."""
