"""Small batches reach the driver whole and in order; larger ones are recognised by their offsets."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.driver_rows import collect, collect_few, input_rows


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, numPartitions=4).selectExpr("id", "'k' || id AS name")


def fence(start: str, end: str) -> Fence:
    return Fence(job="orders", checkpoint="first", batch_id=0, starts=(start,), ends=(end,))


def test_collected_rows_are_all_rows_in_their_order(spark: SparkSession) -> None:
    rows = [row for batch in collect(numbers(spark, 50)) for row in batch.to_pylist()]
    assert rows == [{"id": id, "name": f"k{id}"} for id in range(50)]
    assert sum(batch.num_rows for batch in collect(numbers(spark, 0))) == 0


def test_error_of_a_task_is_raised_by_collect(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="no such row"):
        collect(numbers(spark, 4).select(F.raise_error(F.lit("no such row"))))


@pytest.mark.parametrize(
    ("start", "end", "rows"),
    [
        ({"t": {"0": 5}}, {"t": {"0": 7, "1": 3}}, 5),
        ({"t": {"0": 5}}, {"t": {"0": 5}}, 0),
        ({"logOffset": 1}, {"logOffset": 2}, float("inf")),
    ],
)
def test_input_rows_are_those_between_the_offsets_of_topics(start: object, end: object, rows: float) -> None:
    assert input_rows(fence(json.dumps(start), json.dumps(end))) == rows


def test_batch_of_more_input_rows_is_not_collected(spark: SparkSession) -> None:
    batch = fence('{"t": {"0": 0}}', '{"t": {"0": 50}}')
    assert collect_few(numbers(spark, 50), batch, 49) is None
    few = collect_few(numbers(spark, 50), batch, 50)
    assert few is not None
    assert sum(each.num_rows for each in few) == 50


def test_batch_of_files_is_collected_by_its_estimated_bytes(spark: SparkSession) -> None:
    files = fence('{"logOffset": 0}', '{"logOffset": 1}')
    assert collect_few(numbers(spark, 50), files, 10**6) is None
    assert collect_few(numbers(spark, 50), files, 10**6, row_bytes=100) is not None
    assert collect_few(numbers(spark, 50), files, 0, row_bytes=100) is None
