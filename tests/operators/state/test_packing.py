"""Packing: the rows of a bucket as one value, complete and in the bucket of their hash."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.operators.state import packing
from headrace.operators.state.packing import BUCKET, PAYLOAD, bucket_keys, decode_rows, encode_output, pack

SCHEMA = pa.schema([pa.field("number", pa.int64()), pa.field("word", pa.string())])


def table_of(numbers: list[int]) -> pa.Table:
    words = [None if number % 3 == 0 else f"word {number}" for number in numbers]
    return pa.table([pa.array(numbers, pa.int64()), pa.array(words, pa.string())], schema=SCHEMA)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=30), st.integers(1, 8))
def test_every_row_is_in_the_bucket_of_its_hash(hashes: list[int], bucket_count: int) -> None:
    rows = table_of(list(range(len(hashes))))
    packed = pack(rows, np.array(hashes, dtype=np.uint64), bucket_count).to_pylist()
    found = {row[BUCKET]: decode_rows([row[PAYLOAD]], SCHEMA) for row in packed}
    assert len(found) == len(packed)
    for bucket, inside in found.items():
        place = bucket_keys(bucket_count).index(bucket)
        own = [number for number, each in enumerate(hashes) if each % bucket_count == place]
        assert inside.to_pylist() == table_of(own).to_pylist()
    assert sum(inside.num_rows for inside in found.values()) == len(hashes)


@pytest.mark.parametrize(
    ("buckets", "partitions"), [(32, 1), (32, 2), (32, 3), (32, 8), (32, 32), (256, 10), (6, 6)]
)
def test_buckets_are_spread_evenly_over_partitions(
    spark: SparkSession, buckets: int, partitions: int
) -> None:
    keys = spark.createDataFrame([(key,) for key in bucket_keys(buckets)], "bucket INT")
    counts = keys.groupBy(F.pmod(F.hash("bucket"), F.lit(partitions))).count().collect()
    assert len(counts) == partitions
    assert max(row["count"] for row in counts) - min(row["count"] for row in counts) <= 1


def test_payloads_of_several_tasks_become_one_table() -> None:
    payloads = [packing.encode_rows(table_of(part)) for part in ([1, 2], [], [3])]
    rows = decode_rows(payloads, SCHEMA)
    assert rows.to_pylist() == table_of([1, 2, 3]).to_pylist()
    assert all(column.num_chunks <= 1 for column in rows.columns)


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7])
def test_output_is_split_into_payloads_of_bounded_size(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "PAYLOAD_ROWS_MAX", 3)
    rows = table_of(list(range(count)))
    payloads = list(encode_output(rows))
    assert len(payloads) == -(-count // 3)
    assert decode_rows(payloads, SCHEMA).to_pylist() == rows.to_pylist()
