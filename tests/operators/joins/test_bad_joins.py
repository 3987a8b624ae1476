"""What is wrong with a join is said when it is made or applied, and which field it is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from tests.operators.streams import bounded


class Frame:
    """As much of a DataFrame as is looked at when a join is made."""

    schema, isStreaming, select = None, False, None


OTHER: Any = Frame()
Case = tuple[DataFrame, DataFrame, dict[str, Any], str]


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({}, "within"),
        ({"within": "0 seconds"}, "within"),
        ({"within": "-1 hour"}, "within"),
        ({"within": timedelta(seconds=-1)}, "within"),
        ({"within": "for ever"}, "within"),
        ({"within": "1 hour", "after": "1 hour"}, "within"),
        ({"before": "-1 hour"}, "before"),
        ({"after": "-1 hour", "before": "1 hour"}, "after"),
        ({"before": "0 seconds", "after": "0 seconds"}, "after"),
        ({"within": "1 hour", "on": ()}, "on"),
        ({"within": "1 hour", "on": ["a", "a"]}, "on"),
        ({"within": "1 hour", "on": {"a": ""}}, "on"),
        ({"within": "1 hour", "on": {"a": "c", "b": "c"}}, "on"),
        ({"within": "1 hour", "unmatched": "outer"}, "unmatched"),
        ({"within": "1 hour", "suffix": ""}, "suffix"),
        ({"within": "1 hour", "other": "clicks"}, "other"),
    ],
)
def test_an_invalid_interval_join_is_refused_by_the_constructor(said: dict[str, Any], field: str) -> None:
    with pytest.raises(op.BadOperator) as refused:
        op.JoinWithin(**{"other": OTHER, "on": "session", **said})
    assert refused.value.field == field
    assert refused.value.hint


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"as_of": "yesterday"}, "as_of"),
        ({"wait": "0 seconds"}, "wait"),
        ({"wait": "-1 second"}, "wait"),
        ({"keep": "a while"}, "keep"),
        ({"keep": "1 hour", "as_of": "latest"}, "keep"),
        ({"unmatched": "right"}, "unmatched"),
        ({"columns": ["a", "a"]}, "columns"),
        ({"on": []}, "on"),
        ({"suffix": ""}, "suffix"),
        ({"table": None}, "table"),
    ],
)
def test_an_invalid_enrichment_is_refused_by_the_constructor(said: dict[str, Any], field: str) -> None:
    with pytest.raises(op.BadOperator) as refused:
        op.Enrich(**{"table": OTHER, "on": "user", **said})
    assert refused.value.field == field
    assert refused.value.hint


def test_a_join_that_does_not_fit_the_rows_is_refused_when_it_is_applied(spark: SparkSession) -> None:
    rows = bounded(spark, [("ann", 1, 1)])
    nested = rows.withColumn("user", F.struct("user"))
    numbers = rows.withColumn("user", F.lit(1))
    timed: dict[str, Any] = {"time": "at", "other_time": "at", "within": "1 hour", "on": "user"}
    stream = (
        spark.readStream.format("rate").load().selectExpr("'x' as user", "timestamp as at", "value as ms")
    )
    watermarked = stream.withWatermark("at", "1 minute")
    cases: list[Case] = [
        (rows, rows, {"on": "usr"}, "on"),
        (rows, rows.drop("user"), {}, "on"),
        (rows, numbers, {}, "on"),
        (nested, nested, {}, "on"),
        (rows, rows, {"time": None}, "time"),
        (rows, rows, {"other_time": None}, "other_time"),
        (rows, rows, {"other_time": "ms"}, "other_time"),
        (rows, rows.withColumn("at", F.col("at").cast("timestamp_ntz")), {}, "other_time"),
        (rows.withColumn("ms_right", F.lit(1)), rows, {}, "suffix"),
        (rows, watermarked, {}, "other"),
        (watermarked, rows, {}, "other"),
        (stream, watermarked, {}, "time"),
        (watermarked, stream, {}, "other_time"),
    ]
    for here, there, said, field in cases:
        with pytest.raises(op.BadOperator) as refused:
            op.JoinWithin(there, **{**timed, **said})(here)
        assert refused.value.field == field
        assert refused.value.hint


def test_an_enrichment_that_does_not_fit_the_rows_is_refused_when_it_is_applied(spark: SparkSession) -> None:
    rows = bounded(spark, [("ann", 1, 1)])
    timed: dict[str, Any] = {"time": "at", "table_time": "at", "on": "user"}
    stream = (
        spark.readStream.format("rate").load().selectExpr("'x' as user", "timestamp as at", "value as ms")
    )
    cases: list[Case] = [
        (rows, rows, {"on": {"user": "usr"}}, "on"),
        (rows, rows.withColumn("user", F.lit(1)), {}, "on"),
        (rows, rows, {"columns": "msec"}, "columns"),
        (rows, rows, {"time": "then"}, "time"),
        (rows, rows, {"table_time": None}, "table_time"),
        (rows, rows, {"deleted": "gone = 1"}, "deleted"),
        (rows, rows, {"deleted": "ms"}, "deleted"),
        (rows, stream, {}, "table"),
        (stream, stream, {}, "time"),
        (stream, stream, {"as_of": "latest", "wait": "1 hour"}, "time"),
        (rows.withColumn("ms_table", F.lit(1)), rows, {}, "suffix"),
    ]
    for here, there, said, field in cases:
        with pytest.raises(op.BadOperator) as refused:
            op.Enrich(there, **{**timed, **said})(here)
        assert refused.value.field == field
        assert refused.value.hint
