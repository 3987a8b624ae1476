"""What is wrong with an operator is said when it is made, and which field it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.operator import duration_us
from headrace.operators.state.spark import BUCKETS_SETTING
from headrace.plan_names import EVENT_TIME
from tests.operators.streams import bounded


@pytest.mark.parametrize(
    ("said", "us"),
    [
        ("10 seconds", 10_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("500 milliseconds", 500_000),
        ("1 Day", 86_400_000_000),
        (timedelta(minutes=2), 120_000_000),
    ],
)
def test_durations_are_parsed(said: str | timedelta, us: int) -> None:
    assert duration_us(said, operator="x", field="y") == us


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: op.Tumbling("0 seconds"), "length"),
        (lambda: op.Tumbling("-1 minute"), "length"),
        (lambda: op.Tumbling("a while"), "length"),
        (lambda: op.Tumbling("1 month"), "length"),
        (lambda: op.Tumbling("1 parsec"), "length"),
        (lambda: op.Tumbling("300 weeks 99999 days"), "length"),
        (lambda: op.Tumbling(60), "length"),  # type: ignore[arg-type]
        (lambda: op.Tumbling("1 minute", offset="-1 second"), "offset"),
        (lambda: op.Hopping("1 minute", every="2 minutes"), "every"),
        (lambda: op.Hopping("1 day", every="1 second"), "every"),
        (lambda: op.Sampling("1 minute", every="1 minute"), "every"),
        (lambda: op.Session(gap=timedelta()), "gap"),
        (lambda: op.Session(gap="1 minute", trigger=op.Trigger(panes="accumulating")), "trigger"),
        (lambda: op.Session(gap="-1 minute"), "gap"),
        (lambda: op.Session(gap=op.PerRow(" ")), "expression"),
        (lambda: op.Sliding("-5 minutes"), "within"),
        (lambda: op.Counting(0), "rows"),
        (lambda: op.Counting(-3), "rows"),
        (lambda: op.Counting(True), "rows"),
        (lambda: op.Counting("ten"), "rows"),  # type: ignore[arg-type]
        (lambda: op.Counting(2, trigger=op.Trigger(panes="discarding")), "trigger"),
        (lambda: op.Counting(2, aggregate={"n": "median(x)"}), "aggregate"),
        (lambda: op.Tumbling("1 day", zone="Europe/Berln"), "zone"),
        (lambda: op.Tumbling("1 day", zone="../etc/passwd"), "zone"),
        (lambda: op.Tumbling("1 hour", zone="Europe/Berlin"), "length"),
        (lambda: op.Hopping("7 days", every="12 hours", zone="Europe/Berlin"), "every"),
        (lambda: op.Tumbling("1 minute", aggregate={}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"op": "count(*)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "count()"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "sum(*)"}, trigger=op.Trigger()), "aggregate"),
        (lambda: op.Sliding("1 minute", aggregate={"n": "median(x)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "percentile(x, 95)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "percentile(x)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "top(x, 0)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "top(x)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "distinct(*)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "distinct(x)", "m": "median(x)"}), "aggregate"),
        (lambda: op.Sliding("1 minute", trigger=op.Trigger(panes="discarding")), "trigger"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "median(x)"}, trigger=op.Trigger()), "aggregate"),
        (
            lambda: op.Tumbling("1 minute", aggregate={"n": "count(distinct x)"}, trigger=op.Trigger()),
            "aggregate",
        ),
        (lambda: op.Tumbling("1 minute", by=["a", "a"]), "by"),
        (lambda: op.Tumbling("1 minute", by="window_start"), "by"),
        (lambda: op.Trigger(early=0), "early"),
        (lambda: op.Trigger(early="soon"), "early"),
        (lambda: op.Trigger(late="0 seconds"), "late"),
        (lambda: op.Trigger(panes="some"), "panes"),  # type: ignore[arg-type]
        (lambda: op.Correct(within="0 seconds"), "within"),
        (lambda: op.DropLate(alarm_above=2), "alarm_above"),
    ],
)
def test_an_invalid_operator_is_refused_by_the_constructor(make: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as refused:
        make()
    assert refused.value.field == field
    assert refused.value.hint


@pytest.mark.parametrize(
    ("window", "field"),
    [
        (op.Tumbling("1 minute"), "time"),
        (op.Tumbling("1 minute", time="then"), "time"),
        (op.Tumbling("1 minute", time="ms"), "time"),
        (op.Tumbling("1 minute", time="at", by="usr"), "by"),
        (op.Tumbling("1 minute", time="at", by="nested", trigger=op.Trigger()), "by"),
        (
            op.Tumbling("1 minute", time="at", aggregate={"n": "sum(nothing)"}, trigger=op.Trigger()),
            "aggregate",
        ),
        (op.Tumbling("1 minute", time="at", aggregate={"n": "sum(user)"}, trigger=op.Trigger()), "aggregate"),
        (
            op.Tumbling("1 minute", time="at", aggregate={"n": "collect(ms, x)"}, trigger=op.Trigger()),
            "aggregate",
        ),
    ],
)
def test_an_operator_that_does_not_fit_the_rows_is_refused_when_it_is_applied(
    spark: SparkSession, window: op.Operator, field: str
) -> None:
    rows = bounded(spark, [("ann", 1, 1)]).withColumn("nested", F.struct("user", "ms"))
    with pytest.raises(op.BadOperator) as refused:
        window(rows)
    assert refused.value.field == field
    assert refused.value.hint


def test_a_stream_without_a_watermark_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(op.BadOperator, match="no watermark") as refused:
        op.Tumbling("1 minute", time="timestamp")(stream)
    assert "withWatermark" in refused.value.hint


@pytest.mark.parametrize("told", ["many", "0", "-1"])
def test_a_session_with_a_bad_number_of_buckets_is_refused(spark: SparkSession, told: str) -> None:
    window = op.Tumbling("1 minute", time="at", trigger=op.Trigger())
    spark.conf.set(BUCKETS_SETTING, told)
    try:
        with pytest.raises(op.BadOperator, match="positive integer") as refused:
            window(bounded(spark, [("ann", 1, 1)]))
    finally:
        spark.conf.unset(BUCKETS_SETTING)
    assert refused.value.field == BUCKETS_SETTING


def test_the_column_that_the_source_declared_is_the_event_time(spark: SparkSession) -> None:
    rows = bounded(spark, [("ann", 1, 1), ("ann", 61, 1)]).withColumn("sent", F.current_timestamp())
    declared = rows.withColumn("at", F.col("at").alias("at", metadata={EVENT_TIME: True}))
    assert op.Tumbling("1 minute")(declared).count() == 2
