"""Joins of streams on the core: which streams they are for, which rows they drop, and what they count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.plan_names import EVENT_TIME, LATE, LATE_METRIC, OPERATOR_ALIAS, SKIPPED_METRIC
from tests.operators.streams import EPOCH_S, SCHEMA, Stream


def joined_with_itself(rows: DataFrame) -> DataFrame:
    return rows.transform(op.JoinWithin(rows, on="user", within="10 seconds"))


def pairs(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((row["ms"], row["ms_right"]) for row in rows)


def counted(stream: Stream, prefix: str) -> dict[str, int]:
    """The sums of the counts of an observed metric in all batches."""
    sums: dict[str, int] = {}
    for progress in stream.progress:
        for name, counts in progress["observedMetrics"].items():
            if name.startswith(prefix):
                for reason, count in counts.items():
                    sums[reason] = sums.get(reason, 0) + (count or 0)
    return sums


def test_late_rows_are_counted_and_a_row_at_the_watermark_is_not_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, joined_with_itself)
    assert pairs(stream.send([("ann", 100, 1)])) == [(1, 1)]
    assert pairs(stream.send([("ann", 99, 2), ("ann", 100, 3)])) == [(1, 3), (3, 1), (3, 3)]
    assert counted(stream, f"{LATE_METRIC}joinwithin")[LATE] == 2, "once for each side"


def test_rows_without_a_time_are_counted_and_rows_without_a_key_match_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, joined_with_itself)
    rows = [("ann", None, 1), (None, 5, 2), ("ann", -EPOCH_S - 10, 3), ("ann", 5, 4)]
    assert pairs(stream.send(rows)) == [(4, 4)]
    assert counted(stream, f"{SKIPPED_METRIC}joinwithin") == {"no_time": 2, "before_1970": 2}


def stream_of(spark: SparkSession, folder: Path, *more: str) -> DataFrame:
    rows = spark.readStream.schema(SCHEMA).json(str(folder)).withWatermark("at", "1 minute")
    return rows.selectExpr("*", *more)


@pytest.mark.parametrize(
    ("column", "is_in_core"),
    [
        ("array(ms) AS numbers", True),
        ("parse_json('1') AS parsed", False),
        ("INTERVAL '1' YEAR AS years", False),
    ],
)
@pytest.mark.parametrize(
    "join",
    [
        lambda rows: op.JoinWithin(rows, on="user", within="1 hour"),
        lambda rows: op.JoinWindow(rows, on="user", length="1 hour"),
        lambda rows: op.Absence(of=rows, on="user", within="1 hour"),
    ],
    ids=["JoinWithin", "JoinWindow", "Absence"],
)
def test_streams_of_types_that_the_core_does_not_have_are_joined_by_spark(
    spark: SparkSession,
    tmp_path: Path,
    join: Callable[[DataFrame], op.Operator],
    column: str,
    is_in_core: bool,
) -> None:
    rows = stream_of(spark, tmp_path, column)
    plan = join(rows.select("user", "at"))(rows)._jdf.queryExecution().analyzed().toString()
    assert (OPERATOR_ALIAS in plan, "Join " in plan) == (is_in_core, not is_in_core)


def test_a_key_with_a_collation_is_compared_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    rows = stream_of(spark, tmp_path).withColumn("user", F.expr("collate(user, 'UTF8_LCASE')"))
    plan = joined_with_itself(rows)._jdf.queryExecution().analyzed().toString()
    assert OPERATOR_ALIAS not in plan


def test_event_time_of_the_result_is_that_of_the_left_side(spark: SparkSession, tmp_path: Path) -> None:
    joined = joined_with_itself(stream_of(spark, tmp_path))
    assert [each.name for each in joined.schema if each.metadata.get(EVENT_TIME)] == ["at"]
