"""Batches are gathered to tables of a wanted size, with the types that a step expects."""

from __future__ import annotations

import pyarrow as pa

from headrace.operators.state.gathering import gathered, with_types


def test_batches_are_gathered_until_there_are_enough_rows() -> None:
    sizes = [2, 0, 1, 5, 1]
    batches = [pa.record_batch([pa.array(["x"] * size, pa.string())], names=["word"]) for size in sizes]
    assert [table.num_rows for table in gathered(iter(batches), 3)] == [3, 5, 1]


def test_types_of_spark_are_replaced() -> None:
    given = pa.table(
        {"at": pa.array([1], pa.timestamp("us", tz="Etc/UTC")), "word": pa.array(["x"], pa.large_string())}
    )
    schema = pa.schema([("at", pa.timestamp("us", tz="UTC")), ("word", pa.string())])
    assert with_types(given, schema).schema == schema
