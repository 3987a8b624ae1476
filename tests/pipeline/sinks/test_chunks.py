"""Rows reach the tasks that write them in chunks, and all rows of a key in one task, in the order of the batch."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.changes import last_positions
from headrace.pipeline.sinks.chunks import RANK_IN_ROWS, by_key, by_key_in_order, chunks_of

FENCE = Fence(job="job", checkpoint="c", batch_id=0)


def test_chunks_have_about_their_size_and_no_empty_batch() -> None:
    numbers = [pa.record_batch({"n": [n]}) for n in range(5)]
    found = list(chunks_of([numbers[0].slice(0, 0), *numbers], 16))
    assert [chunk["n"].to_pylist() for chunk in found] == [[0, 1], [2, 3], [4]]


def in_tasks(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows.withColumn("task", F.spark_partition_id()).collect()]


def test_all_rows_of_a_key_are_in_one_task_with_their_ranks(spark: SparkSession) -> None:
    rows = spark.range(0, 1_000, numPartitions=5).selectExpr("pmod(id, 70) AS `a key`", "id AS n")
    tasks = defaultdict(set)
    found = in_tasks(by_key(rows, ["a key"], FENCE))
    for row in found:
        tasks[row["a key"]].add(row["task"])
    assert {len(each) for each in tasks.values()} == {1}
    assert [row["n"] for row in sorted(found, key=lambda row: row[RANK_IN_ROWS])] == list(range(1_000))


def test_last_row_of_a_key_is_the_one_that_arrow_finds(spark: SparkSession) -> None:
    """Nulls are before NaN, and NaN before all numbers; a deletion before an upsert; else the later row wins."""
    rows = spark.range(0, 90, numPartitions=3).selectExpr(
        "pmod(id * 7, 12) AS id",
        "element_at(array(NULL, DOUBLE('NaN'), -1D, 0.5D, DOUBLE('inf'), 0.5D), INT(pmod(id * 11, 6)) + 1) AS at",
        "IF(pmod(id, 3) = 0, 'd', 'c') AS op",
        "id AS n",
    )
    collected = rows.toArrow()
    for order_by in ("at", None):
        names = ["id", "op", "n"] if order_by is None else ["id", "at", "op", "n"]
        last = {
            row["id"]: row["n"]
            for row in in_tasks(by_key_in_order(rows.select(names), ["id"], FENCE, order_by))
        }
        upserts, deletes = last_positions(collected.select(names), ["id"], order_by)
        wanted = collected.take(pa.array([*upserts, *deletes]))
        assert last == dict(zip(wanted["id"].to_pylist(), wanted["n"].to_pylist(), strict=True))
