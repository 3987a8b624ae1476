"""Packing the rows of a bucket into one binary value, for the way through Spark.

Spark passes rows to a stateful Python function one by one, which costs more than all the work on them. So the rows of a
bucket are packed into one value where they are read, and results are packed likewise.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from headrace.operators.state.ids import Hashes

BUCKET = "bucket"
CLOCK_BUCKET = -1
"""The key under which each partition of the state keeps the watermark of its last batch."""
PAYLOAD = "payload"
PACKED_SCHEMA = pa.schema([pa.field(BUCKET, pa.int32()), pa.field(PAYLOAD, pa.binary())])

_CODEC = pa.Codec("lz4")
"""Spark takes longer for the bytes of a payload, which it writes as text, than it takes to compress them."""

_SIZE_BYTES = 8

_SEED = 42
_WORD = 0xFFFFFFFF
_OTHER_FACTORS = 3 * 5

PAYLOAD_ROWS_MAX = 200_000
"""Rows per payload of results. Spark holds a payload in memory, and a value must stay below 2 GB."""


@functools.cache
def bucket_keys(count: int) -> tuple[int, ...]:
    """The key of each bucket in Spark, which hashes it to a partition.

    Of the numbers 0 to 31, Spark has 20 in one of two partitions, and 12 in the other. With these keys, the buckets are
    spread evenly over every number of partitions that divides 15 times `count`.
    """
    rest = count * _OTHER_FACTORS
    found: dict[int, int] = {}
    for key in itertools.count():
        found.setdefault(_spark_hash(key) % rest, key)
        if found.keys() >= set(range(count)):
            return tuple(found[number] for number in range(count))
    raise AssertionError("every remainder occurs")


def _spark_hash(number: int) -> int:
    """Murmur3 of an integer, with Spark's seed."""
    word = _rotated(number * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    mixed = (_rotated(_SEED ^ word, 13) * 5 + 0xE6546B64 & _WORD) ^ 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


def pack(rows: pa.Table, hashes: Hashes, bucket_count: int) -> pa.RecordBatch:
    """One row for each bucket that has rows, with the key of the bucket."""
    # Integers of 16 bits or less are sorted by radix.
    buckets = (hashes % np.uint64(bucket_count)).astype(np.min_scalar_type(bucket_count))
    order = np.argsort(buckets, kind="stable")
    sorted_rows = rows.take(pa.array(order)).combine_chunks()
    numbers, starts = np.unique(buckets[order], return_index=True)
    ends = np.append(starts[1:], len(buckets))
    payloads = [
        encode_rows(sorted_rows.slice(start, end - start)) for start, end in zip(starts, ends, strict=True)
    ]
    keys = [bucket_keys(bucket_count)[number] for number in numbers]
    return pa.record_batch(
        [pa.array(keys, pa.int32()), pa.array(payloads, pa.binary())], schema=PACKED_SCHEMA
    )


def encode_rows(rows: pa.Table) -> bytes:
    """The rows without their schema, which both sides know."""
    batches = rows.combine_chunks().to_batches()
    assert len(batches) <= 1
    if not batches:
        return b""
    content = batches[0].serialize()
    size, compressed = int(content.size), bytes(_CODEC.compress(content, asbytes=True))
    return size.to_bytes(_SIZE_BYTES, "little") + compressed


def decode_rows(payloads: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    batches = [pa.ipc.read_record_batch(_decompressed(each), schema) for each in payloads if each]
    return pa.Table.from_batches(batches, schema).combine_chunks()


def _decompressed(payload: bytes) -> pa.Buffer:
    size = int.from_bytes(payload[:_SIZE_BYTES], "little")
    content: pa.Buffer = _CODEC.decompress(memoryview(payload)[_SIZE_BYTES:], decompressed_size=size)
    return content


def encode_output(rows: pa.Table) -> Iterator[bytes]:
    for start in range(0, rows.num_rows, PAYLOAD_ROWS_MAX):
        yield encode_rows(rows.slice(start, PAYLOAD_ROWS_MAX))
