"""The core on Spark: buckets, settings, bounded rows and payloads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.operators.state import spark as spark_core
from headrace.operators.state.packing import encode_rows
from headrace.operators.state.spark import BUCKETS_SETTING
from headrace.operators.windows.lifting import ClockSlots
from tests.operators.streams import Stream, bounded
from tests.operators.windows.pane_oracle import Rules
from tests.operators.windows.stepping import Windows, table_of


@pytest.mark.parametrize("buckets", ["many", "0", "-1"])
def test_a_session_with_a_bad_number_of_buckets_is_rejected(spark: SparkSession, buckets: str) -> None:
    window = op.Tumbling("1 minute", time="at", trigger=op.Trigger())
    spark.conf.set(BUCKETS_SETTING, buckets)
    try:
        with pytest.raises(op.BadOperator, match="positive integer") as rejected:
            window(bounded(spark, [("ann", 1, 1)]))
    finally:
        spark.conf.unset(BUCKETS_SETTING)
    assert rejected.value.field == BUCKETS_SETTING


SCHEMA = pa.schema([pa.field("word", pa.string())])


def test_results_are_unpacked_and_rows_of_counts_are_not() -> None:
    words = pa.table([pa.array(["a", "b"])], schema=SCHEMA)
    payloads = [[encode_rows(words), None], [encode_rows(words.slice(1)), None]]
    results = (pa.record_batch([pa.array(each, pa.binary())], ["payload"]) for each in payloads)
    rows = pa.Table.from_batches(spark_core._unpacked(SCHEMA, results), SCHEMA).to_pylist()
    assert [row["word"] for row in rows] == ["a", "b", "b"]


def test_bounded_rows_get_the_final_watermark() -> None:
    windows = Windows(Rules(), slots=ClockSlots(length_us=10, every_us=10))
    slots, _ = windows.lift(table_of([("a", 1, 5), ("a", 2, 6), ("b", 15, 7)]))
    packed = pa.table({"payload": [encode_rows(slots.slice(0, 1)), encode_rows(slots.slice(1))]})
    rows = spark_core._bounded(windows.step)(packed).to_pylist()
    assert sorted((row["key"], row["n"], row["pane"]) for row in rows) == [
        ("a", 2, "on time"),
        ("b", 1, "on time"),
    ]


def test_an_early_pane_is_emitted_in_the_next_batch_that_has_no_rows_of_its_bucket(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The watermark stays the same throughout: only processing time passes."""
    trigger = op.Trigger(early="1 millisecond")
    stream = Stream(spark, tmp_path, op.Tumbling("1 hour", by="user", time="at", trigger=trigger))
    stream.send([("zoe", 100, 1)])
    assert stream.send([("ann", 10, 1)]) == []
    assert [(row["user"], row["pane"]) for row in stream.send([("bob", 10, 1)])] == [("ann", "early")]
