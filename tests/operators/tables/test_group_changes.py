"""Groups over a changelog on Spark, and groups that are rejected."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from tests.operators.tables.orders import counted, orders


def test_groups_of_bounded_rows_are_those_of_spark(spark: SparkSession) -> None:
    rows = orders(spark).withColumn("cents", (F.col("amount") * 100).cast("bigint"))
    totals = {"n": "count(*)", "known": "count(cents)", "total": "sum(cents)", "mean": "avg(cents)"}
    more = {**totals, "most": "max(at)", "least": "min(cents)", "spread": "stddev(cents)"}
    distinct = {
        "users": "count(distinct user)",
        "pairs": "count(distinct id % 2, amount)",
        "ids": "count(DISTINCT id)",
    }
    for aggregate in (totals, more, distinct):
        grouped = rows.transform(op.GroupChanges(by="user", aggregate=aggregate)).drop("op")
        expected = rows.groupBy("user").agg(*(F.expr(text).alias(name) for name, text in aggregate.items()))
        assert counted(grouped) == counted(expected)


def test_first_and_last_are_by_time_and_distinct_counts_are_exact(spark: SparkSession) -> None:
    rows = orders(spark).withColumn("at", F.col("at") + F.expr("id % 3 * interval 1 hour"))
    groups = op.GroupChanges(
        by="user", time="at", aggregate={"earliest": "first(id)", "latest": "last(tags)", "n": "distinct(id)"}
    )
    timed = F.when(F.col("at").isNotNull(), F.struct("at", "id"))
    tagged = F.when(F.col("at").isNotNull() & F.col("tags").isNotNull(), F.struct("at", "tags"))
    expected = rows.groupBy("user").agg(
        F.min(timed)["id"].alias("earliest"),
        F.max(tagged)["tags"].alias("latest"),
        F.count_distinct("id").alias("n"),
    )
    assert counted(rows.transform(groups).drop("op")) == counted(expected)


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.GroupChanges(aggregate={}), "aggregate"),
        (lambda: op.GroupChanges(aggregate={"n": "collect(x)"}), "aggregate"),
        (lambda: op.GroupChanges(aggregate={"n": "sum(distinct x)"}), "aggregate"),
        (lambda: op.GroupChanges(by="n", aggregate={"n": "count(*)"}), "by"),
    ],
)
def test_invalid_arguments_are_rejected_by_the_constructor(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda spark: orders(spark).transform(op.GroupChanges(by="tags")), "by"),
        (
            lambda spark: orders(spark).transform(op.GroupChanges(aggregate={"n": "sum(nothing)"})),
            "aggregate",
        ),
        (lambda spark: orders(spark).transform(op.GroupChanges(aggregate={"n": "sum(user)"})), "aggregate"),
        (lambda spark: orders(spark).transform(op.GroupChanges(aggregate={"n": "first(user)"})), "time"),
    ],
)
def test_groups_that_do_not_fit_the_rows_are_rejected_when_they_are_applied(
    spark: SparkSession, create: Callable[[SparkSession], DataFrame], field: str
) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create(spark)
    assert rejected.value.field == field
    assert rejected.value.hint
