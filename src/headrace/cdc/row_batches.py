"""Records of many rows at once, by whole columns: no step runs for each row. No I/O.

The texts around the values are the same in all rows of a table. Records are joined from them, from the columns, which
hold values as JSON, and from the lengths that the format of record batches puts before key and value.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.cdc.envelope import Layout

Columns = Sequence[pa.BinaryArray]
"""Values as JSON, one array for each column, without nulls."""

LENGTHS_MAX = 1 << 14
"""Lengths below it have their varints in a table; longer ones are computed one by one."""


def binary_array(values: Sequence[bytes]) -> pa.BinaryArray:
    """`pa.array` would import pandas, which takes 40 MB of memory."""
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value) for value in values], out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def scalar(value: bytes) -> pa.BinaryScalar:
    return binary_array([value])[0]


_EMPTY = scalar(b"")


def by_partition(layout: Layout, columns: Columns, partitions: int) -> Iterator[tuple[int, Columns]]:
    """The rows of each partition, in order. Kafka's clients choose the same one for a key."""
    if partitions == 1:
        yield 0, columns
        return
    keys = pc.binary_join_element_wise(*_pieces(layout.key, _key_columns(layout, columns)), _EMPTY)
    chosen = (murmur2(keys) & 0x7FFFFFFF) % partitions
    for partition in range(partitions):
        rows = integers(np.flatnonzero(chosen == partition))
        if len(rows):
            yield partition, [column.take(rows) for column in columns]


def records(layout: Layout, columns: Columns) -> tuple[list[bytes], list[bytes]]:
    """The key and the value of the record of each row."""
    keys = pc.binary_join_element_wise(*_pieces(layout.key, _key_columns(layout, columns)), _EMPTY)
    return _values(keys), _values(pc.binary_join_element_wise(*_pieces(layout.value, columns), _EMPTY))


def number_column(numbers: np.ndarray[Any, Any]) -> pa.BinaryArray:
    """Whole numbers as JSON."""
    return integers(numbers).cast(pa.string()).cast(pa.binary())


def _values(column: pa.BinaryArray) -> list[bytes]:
    """Arrow's own `to_pylist` takes several times as long."""
    data = column.buffers()[2].to_pybytes()
    return [data[begin:end] for begin, end in itertools.pairwise(offsets(column).tolist())]


def encoded(layout: Layout, columns: Columns) -> pa.Buffer:
    """The rows as the records of one batch."""
    key_columns = _key_columns(layout, columns)
    count = len(columns[0])
    key_lengths = _lengths(layout.key, key_columns, count)
    value_lengths = _lengths(layout.value, columns, count)
    offset_varints, key_varints = varints(np.arange(count)), varints(key_lengths)
    value_varints = varints(value_lengths)
    # Attributes, the difference of the timestamp, and the number of headers are a zero byte each.
    lengths = key_lengths + value_lengths + 3
    for each in (offset_varints, key_varints, value_varints):
        lengths += np.diff(offsets(each))
    joined = pc.binary_join_element_wise(
        varints(lengths),
        scalar(b"\0\0"),
        offset_varints,
        key_varints,
        *_pieces(layout.key, key_columns),
        value_varints,
        *_pieces(layout.value, columns),
        scalar(b"\0"),
        _EMPTY,
    )
    begin, end = offsets(joined)[[0, -1]].tolist()
    return joined.buffers()[2].slice(begin, end - begin)


def _key_columns(layout: Layout, columns: Columns) -> Columns:
    return [columns[at] for at in layout.key_columns]


def _pieces(texts: Sequence[bytes], columns: Columns) -> Iterator[Any]:
    for text, column in zip(texts, (*columns, None), strict=True):
        yield scalar(text)
        if column is not None:
            yield column


def _lengths(texts: Sequence[bytes], columns: Columns, count: int) -> np.ndarray[Any, Any]:
    total = np.full(count, sum(map(len, texts)), np.int64)
    for column in columns:
        total += np.diff(offsets(column))
    return total


def offsets(column: pa.BinaryArray) -> np.ndarray[Any, Any]:
    """Where each value begins in the buffer of the column, and where the last one ends."""
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]


def integers(numbers: np.ndarray[Any, Any]) -> pa.Int64Array:
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def varints(numbers: np.ndarray[Any, Any]) -> pa.BinaryArray:
    if numbers.max() < LENGTHS_MAX:
        return _varint_table().take(integers(numbers))
    return binary_array([varint(number) for number in numbers.tolist()])


@functools.cache
def _varint_table() -> pa.BinaryArray:
    return binary_array([varint(number) for number in range(LENGTHS_MAX)])


def varint(number: int) -> bytes:
    left = number << 1  # zigzag
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def murmur2(keys: pa.BinaryArray) -> np.ndarray[Any, Any]:
    """The hash of each key, by which Kafka's clients choose a partition. Keys of one length are hashed together."""
    begins = offsets(keys)
    data = np.frombuffer(keys.buffers()[2], np.uint8)
    lengths = np.diff(begins)
    hashes = np.zeros(len(keys), np.uint32)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        hashes[rows] = _murmur2_of(data[begins[rows][:, None] + np.arange(length)], length)
    return hashes


def _murmur2_of(keys: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
    multiplier = np.uint32(0x5BD1E995)
    hashes = np.full(len(keys), 0x9747B28C ^ length, np.uint32)
    whole = length // 4 * 4
    words = np.ascontiguousarray(keys[:, :whole]).view("<u4")
    for at in range(whole // 4):
        word = words[:, at] * multiplier
        word ^= word >> np.uint32(24)
        hashes = hashes * multiplier ^ word * multiplier
    if length > whole:
        for at in range(length - 1, whole - 1, -1):
            hashes ^= keys[:, at].astype(np.uint32) << np.uint32(8 * (at - whole))
        hashes *= multiplier
    hashes ^= hashes >> np.uint32(13)
    hashes *= multiplier
    return hashes ^ hashes >> np.uint32(15)
