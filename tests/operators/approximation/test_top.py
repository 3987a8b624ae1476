"""The most frequent values on Spark, over all time and in windows, beside a count and a sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from headrace import operators as op
from tests.operators.approximation.clicks import clicks


def exact(counted: DataFrame, *by: str) -> list[Any]:
    order = Window.partitionBy(*by).orderBy(F.desc("count"), "url")
    ranked = counted.withColumn("rank", F.row_number().over(order)).where("rank <= 3")
    return sorted(ranked.select(*by, "rank", "url", "count").collect())


def test_top_values_of_all_time_are_those_of_spark(spark: SparkSession) -> None:
    top = clicks(spark).transform(op.TopN(3, of="url", by="country"))
    assert top.columns == ["country", "rank", "url", "count", "op"]
    assert sorted(top.drop("op").collect()) == exact(
        clicks(spark).groupBy("country", "url").count(), "country"
    )


def test_top_values_of_windows_are_those_of_spark(spark: SparkSession) -> None:
    top = clicks(spark).transform(op.TopN(3, of="url", within=op.Tumbling("10 minutes", time="at")))
    assert top.columns == [
        "rank",
        "url",
        "count",
        "window_start",
        "window_end",
        "pane",
        "revision",
        "op",
        "watermark",
    ]
    counted = (
        clicks(spark)
        .groupBy(F.window("at", "10 minutes").alias("window"), "url")
        .count()
        .withColumn("window_end", F.col("window.end"))
    )
    found = top.select("window_end", "rank", "url", "count")
    assert sorted(found.collect()) == exact(counted, "window_end")


WINDOW = op.Tumbling("1 hour")


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.TopN(0, of="url"), "count"),
        (lambda: op.TopN(1_001, of="url"), "count"),
        (lambda: op.TopN(True, of="url"), "count"),
        (lambda: op.TopN(3, of=""), "of"),
        (lambda: op.TopN(3, of="rank"), "of"),
        (lambda: op.TopN(3, of="window_end", within=WINDOW), "of"),
        (lambda: op.TopN(3, of="url", by="url"), "by"),
        (lambda: op.TopN(3, of="url", by="count"), "by"),
        (lambda: op.TopN(3, of="url", within=cast("Any", "1 hour")), "within"),
        (lambda: op.TopN(3, of="url", within=op.Tumbling("1 hour", by="user")), "within"),
        (lambda: op.TopN(3, of="url", within=op.Tumbling("1 hour", aggregate={"n": "sum(n)"})), "within"),
    ],
)
def test_invalid_arguments_are_rejected_by_the_constructor(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


def test_columns_that_do_not_fit_are_rejected_when_it_is_applied(spark: SparkSession) -> None:
    rows = clicks(spark).withColumn("nested", F.struct("user"))
    for operator, field in (
        (op.TopN(3, of="link"), "of"),
        (op.TopN(3, of="nested"), "of"),
        (op.TopN(3, of="url", by="usr"), "by"),
    ):
        with pytest.raises(op.BadOperator) as rejected:
            rows.transform(operator)
        assert rejected.value.field == field
