"""Absence: a row is emitted when no other row can follow in time any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.plan_names import LATE, LATE_METRIC
from headrace.testing import Feed
from tests.operators.streams import Stream, bounded, since_epoch


def _found(rows: DataFrame) -> list[tuple[str, float]]:
    return sorted((row.user, since_epoch(row.at)) for row in rows.collect())


def test_row_is_emitted_unless_another_follows_within_the_time(spark: SparkSession) -> None:
    orders = bounded(
        spark, [("a", 0, 1), ("b", 0, 1), ("c", 5, 1), ("d", 0, 1), ("d", 9, 2), (None, 1, 1), ("e", None, 1)]
    )
    payments = bounded(spark, [("a", 10, 1), ("b", 10.001, 1), ("c", 5, 1), ("d", 4, 1), ("e", 1, 1)])
    absent = orders.transform(
        op.Absence(of=payments, on="user", within="10 seconds", time="at", other_time="at")
    )
    assert _found(absent) == [("b", 0.0), ("d", 9.0)]
    assert absent.columns == orders.columns


def test_several_rows_that_follow_and_equal_rows_change_nothing(spark: SparkSession) -> None:
    orders = bounded(spark, [("a", 0, 1), ("a", 0, 1), ("b", 0, 1), ("b", 0, 1)])
    payments = bounded(spark, [("a", 1, 1), ("a", 2, 1)])
    absent = orders.transform(
        op.Absence(of=payments, on="user", within="10 seconds", time="at", other_time="at")
    )
    assert _found(absent) == [("b", 0.0), ("b", 0.0)]


def test_next_row_of_the_same_rows_is_expected_by_default(spark: SparkSession) -> None:
    beats = bounded(spark, [("a", 0, 1), ("a", 10, 1), ("a", 31, 1), ("b", 5, 1)])
    silent = beats.transform(op.Absence(on="user", within="20 seconds", time="at"))
    assert _found(silent) == [("a", 10.0), ("a", 31.0), ("b", 5.0)]


def test_stream_emits_a_row_when_its_time_runs_out_also_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, op.Absence(on="user", within="10 seconds"))
    assert stream.send([("a", 1, 1), ("b", 2, 1)]) == []
    assert stream.send([("a", 9, 1), ("c", 11, 1)]) == []
    found = stream.send([("c", 13, 1)])
    assert [(row["user"], since_epoch(row["at"])) for row in found] == [("b", 2.0)]
    assert stream.send([("late", 1, 1), ("d", None, 1), (None, 14, 1)]) == []
    metrics = [counts for run in stream.progress for counts in run["observedMetrics"].items()]
    assert sum(counts[LATE] for name, counts in metrics if name.startswith(LATE_METRIC)) > 0


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda rows: op.Absence(of=rows, on="user", within="0 seconds"), "within is '0 seconds'"),
        (lambda rows: op.Absence(of=cast(Any, "payments"), on="user", within="1 minute"), "of is str"),
        (lambda rows: op.Absence(of=rows, on=(), within="1 minute"), "on is empty"),
        (lambda rows: rows.transform(op.Absence(of=rows, on="usr", within="1 minute")), "column 'usr'"),
        (
            lambda rows: rows.transform(
                op.Absence(of=rows.drop("at"), on="user", within="1 minute", time="at")
            ),
            "other_time",
        ),
        (
            lambda rows: rows.withWatermark("at", "1 minute").transform(
                op.Absence(
                    of=rows.sparkSession.range(1).select(F.lit("a").alias("user")),
                    on="user",
                    within="1 minute",
                )
            ),
            "is bounded, but the rows are a stream",
        ),
        (lambda rows: rows.transform(op.Absence(on="user", within="1 minute", time="at")), "no watermark"),
    ],
)
def test_invalid_absence_is_rejected(
    spark: SparkSession, tmp_path: Path, make: Callable[[DataFrame], Any], problem: str
) -> None:
    rows = Feed(spark, "user STRING, at TIMESTAMP", tmp_path).rows
    with pytest.raises(op.BadOperator) as rejected:
        make(rows)
    assert problem in str(rejected.value)
