"""Records of many rows at once, by whole columns: no step runs for each row. No I/O.

The texts around the values are the same in all rows of a table. Records are joined from them, from the columns, which
hold values as JSON, and from the lengths that the format of record batches puts before key and value.
"""

from __future__ import annotations

import functools
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

_EMPTY = pa.scalar(b"", pa.binary())


def by_partition(layout: Layout, columns: Columns, partitions: int) -> Iterator[tuple[int, Columns]]:
    """The rows of each partition, in order. Kafka's clients choose the same one for a key."""
    if partitions == 1:
        yield 0, columns
        return
    keys = pc.binary_join_element_wise(*_pieces(layout.key, _key_columns(layout, columns)), _EMPTY)
    chosen = (murmur2(keys) & 0x7FFFFFFF) % partitions
    for partition in range(partitions):
        rows = pa.array(np.flatnonzero(chosen == partition))
        if len(rows):
            yield partition, [column.take(rows) for column in columns]


def encoded(layout: Layout, columns: Columns) -> bytes:
    """The rows as the records of one batch."""
    key_columns = _key_columns(layout, columns)
    count = len(columns[0])
    key_lengths = _lengths(layout.key, key_columns, count)
    value_lengths = _lengths(layout.value, columns, count)
    offset_varints, key_varints = _varints(np.arange(count)), _varints(key_lengths)
    value_varints = _varints(value_lengths)
    # Attributes, the difference of the timestamp, and the number of headers are a zero byte each.
    lengths = key_lengths + value_lengths + 3
    for varints in (offset_varints, key_varints, value_varints):
        lengths = lengths + pc.binary_length(varints).to_numpy()
    joined = pc.binary_join_element_wise(
        _varints(lengths),
        pa.scalar(b"\0\0", pa.binary()),
        offset_varints,
        key_varints,
        *_pieces(layout.key, key_columns),
        value_varints,
        *_pieces(layout.value, columns),
        pa.scalar(b"\0", pa.binary()),
        _EMPTY,
    )
    _, offsets, data = joined.buffers()
    begin, end = np.frombuffer(offsets, np.int32)[[joined.offset, joined.offset + count]]
    return bytes(data[int(begin) : int(end)])


def _key_columns(layout: Layout, columns: Columns) -> Columns:
    return [columns[at] for at in layout.key_columns]


def _pieces(texts: Sequence[bytes], columns: Columns) -> Iterator[Any]:
    for text, column in zip(texts, (*columns, None), strict=True):
        yield pa.scalar(text, pa.binary())
        if column is not None:
            yield column


def _lengths(texts: Sequence[bytes], columns: Columns, count: int) -> np.ndarray[Any, Any]:
    total = np.full(count, sum(map(len, texts)), np.int64)
    for column in columns:
        total += pc.binary_length(column).to_numpy()
    return total


def _varints(numbers: np.ndarray[Any, Any]) -> pa.BinaryArray:
    if numbers.max() < LENGTHS_MAX:
        return _varint_table().take(pa.array(numbers))
    return pa.array([_varint(number) for number in numbers.tolist()], pa.binary())


@functools.cache
def _varint_table() -> pa.BinaryArray:
    return pa.array([_varint(number) for number in range(LENGTHS_MAX)], pa.binary())


def _varint(number: int) -> bytes:
    left = number << 1  # zigzag
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def murmur2(keys: pa.BinaryArray) -> np.ndarray[Any, Any]:
    """The hash of each key, by which Kafka's clients choose a partition. Keys of one length are hashed together."""
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(data_buffer, np.uint8)
    lengths = np.diff(offsets)
    hashes = np.zeros(len(keys), np.uint32)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        hashes[rows] = _murmur2_of(data[offsets[rows][:, None] + np.arange(length)], length)
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
