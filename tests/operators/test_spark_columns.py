"""Aggregates as Spark columns: the same operator as with texts, or an error that lists the supported columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators import BadOperator
from tests.operators.streams import EventRow, bounded

ROWS: list[EventRow] = [("ann", 1, 5), ("bob", 2, None), ("ann", 50, 7), ("it's, me", 70, 9)]


@pytest.mark.usefixtures("spark")
def test_columns_become_aggregates_of_the_same_meaning() -> None:
    columns: dict[str, Column] = {
        "rows": F.count("*"),
        "ones": F.count(F.lit(1)),
        "users": F.count("user"),
        "total": F.sum(F.col("ms") + 1),
        "mean": F.mean("ms"),
        "least": F.min("ms"),
        "greatest": F.max(F.col("a column").cast("double")),
        "spread": F.stddev("ms"),
        "earliest": F.first("ms", ignorenulls=True),
        "latest": F.last("ms", ignorenulls=True),
        "different": F.approx_count_distinct("user"),
        "slow": F.percentile("ms", 0.95),
        "text": F.expr("sum(ms)"),
        "paid": F.expr("count(*) FILTER (WHERE ms > 1)"),
        "range": F.max("ms") - F.min("ms"),
        "rounded": F.round(F.sum("ms") / F.count("*"), 2).cast("double"),
    }
    assert op.Tumbling("1 minute", aggregate=columns).aggregate == {
        "rows": "count(*)",
        "ones": "count(*)",
        "users": "count(user)",
        "total": "sum(`+`(ms, 1))",
        "mean": "avg(ms)",
        "least": "min(ms)",
        "greatest": "max(CAST(`a column` AS DOUBLE))",
        "spread": "stddev(ms)",
        "earliest": "first(ms)",
        "latest": "last(ms)",
        "different": "distinct(user)",
        "slow": "percentile(ms, 0.95)",
        "text": "sum(ms)",
        "paid": "count(*) filter (where (ms > 1))",
        "range": "`-`(max(ms), min(ms))",
        "rounded": "CAST(round(`/`(sum(ms), count(*)), 2) AS DOUBLE)",
    }


@pytest.mark.usefixtures("spark")
def test_exact_distinct_counts_are_for_groups() -> None:
    groups = op.GroupChanges(aggregate={"n": F.count_distinct("user", "ms")})
    assert groups.aggregate == {"n": "count(distinct user, ms)"}


@pytest.mark.usefixtures("spark")
def test_columns_with_an_alias_need_no_names_of_their_own() -> None:
    named = op.Tumbling("1 minute", aggregate={"n": "count(*)", "total": F.sum("ms").alias("other")})
    aliased = op.Tumbling("1 minute", aggregate=[F.count("*").alias("n"), F.sum("ms").alias("total")])
    assert aliased == named == op.Tumbling("1 minute", aggregate={"n": "count(*)", "total": "sum(ms)"})


@pytest.mark.parametrize("trigger", [None, op.Trigger(early=1)], ids=["spark", "core"])
def test_columns_give_the_results_of_spark(spark: SparkSession, trigger: op.Trigger | None) -> None:
    rows = bounded(spark, ROWS)
    columns = [
        F.count("*").alias("n"),
        F.sum(F.when(F.col("user") == "it's, me", F.col("ms")).otherwise(1)).alias("total"),
        F.approx_count_distinct("user").alias("users"),
        F.percentile("ms", 0.5).alias("middle"),
    ]
    windows = rows.transform(op.Tumbling("1 minute", time="at", aggregate=columns, trigger=trigger))
    exact = rows.groupBy(F.window("at", "1 minute").start.alias("window_start")).agg(*columns)
    shown = ("window_start", "n", "total", "users", "middle")
    assert sorted(windows.select(*shown).collect()) == sorted(exact.select(*shown).collect())


def test_groups_of_a_changelog_take_columns(spark: SparkSession) -> None:
    rows = bounded(spark, ROWS)
    columns = [F.count("*").alias("n"), F.max("ms").alias("most")]
    groups = rows.transform(op.GroupChanges(by="user", aggregate=columns))
    exact = rows.groupBy("user").agg(*columns)
    shown = ("user", "n", "most")
    assert sorted(map(str, groups.select(*shown).collect())) == sorted(
        map(str, exact.select(*shown).collect())
    )


@pytest.mark.parametrize(
    "column",
    [
        lambda: F.sum_distinct("ms"),
        lambda: F.approx_count_distinct("user", 0.01),
        lambda: F.first("ms"),
        lambda: F.percentile("ms", [0.5, 0.9]),
        lambda: F.median("ms"),
        lambda: F.collect_list("ms"),
        lambda: F.last("ms", ignorenulls=True) - F.first("ms"),
        lambda: F.median("ms") / 2,
        lambda: F.sum(F.transform("all", lambda each: each + 1)[0]),
        lambda: F.col("ms"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_column_without_an_aggregate_of_the_same_meaning_is_rejected(column: Callable[[], Column]) -> None:
    with pytest.raises(BadOperator, match=r"not supported \(supported columns are count, avg, max, min"):
        op.Tumbling("1 minute", aggregate={"x": column()})


@pytest.mark.usefixtures("spark")
def test_columns_without_different_names_are_rejected() -> None:
    with pytest.raises(BadOperator, match=r"has sum\(ms\) without a name \(add .alias"):
        op.Tumbling("1 minute", aggregate=[F.sum("ms")])
    with pytest.raises(BadOperator, match="two columns of one name"):
        op.Tumbling("1 minute", aggregate=[F.sum("ms").alias("n"), F.count("*").alias("n")])
    with pytest.raises(BadOperator, match=r"has 'count\(\*\)' without a name"):
        op.Tumbling("1 minute", aggregate=["count(*)"])  # type: ignore[list-item]
