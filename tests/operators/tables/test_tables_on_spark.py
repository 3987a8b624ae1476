"""Table operators on Spark: bounded rows beside Spark's own queries, streams that start anew, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from headrace import operators as op
from headrace.operators.join_tables import How

ORDERS = "id bigint, user string, amount decimal(10,2), at timestamp, tags array<string>, where struct<x:int,y:int>"
USERS = "user string, city string"


def orders(spark: SparkSession) -> DataFrame:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    return spark.createDataFrame(
        [
            (1, "ann", Decimal("9.90"), noon, ["a", None], (1, None)),
            (2, "ann", Decimal("5.00"), noon, [None, "a"], (None, 1)),
            (2, "ann", Decimal("5.00"), noon, [None, "a"], (None, 1)),
            (3, "bob", None, None, None, None),
            (4, None, Decimal("1.00"), noon, [], (0, 0)),
            (5, "eve", Decimal("2.50"), noon, ["b"], (2, 2)),
        ],
        ORDERS,
    )


def users(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [("ann", "Rome"), ("ann", "Oslo"), ("bob", "Oslo"), (None, "Lima"), ("zoe", "Bonn")], USERS
    )


def counted(rows: DataFrame) -> Counter[str]:
    """Without the last digits of floats, which are those of the order of adding."""
    return Counter(
        str(
            [
                (name, round(value, 9) if isinstance(value, float) else value)
                for name, value in sorted(row.asDict(recursive=True).items())
            ]
        )
        for row in rows.collect()
    )


@pytest.mark.parametrize("how", get_args(How))
def test_joins_of_bounded_rows_are_those_of_spark(spark: SparkSession, how: How) -> None:
    joined = orders(spark).transform(op.JoinTables(users(spark), on="user", how=how))
    assert {row.op for row in joined.select("op").collect()} == {"+"}
    assert counted(joined.drop("op")) == counted(orders(spark).join(users(spark), "user", how))


def test_columns_of_different_names_both_appear(spark: SparkSession) -> None:
    renamed = users(spark).withColumnRenamed("user", "name")
    joined = orders(spark).transform(op.JoinTables(renamed, on={"user": "name"}, how="full"))
    assert joined.columns == [*orders(spark).columns, "name", "city", "op"]
    expected = orders(spark).join(renamed, F.col("user") == F.col("name"), "full")
    assert counted(joined.drop("op")) == counted(expected)


def test_groups_and_newest_of_bounded_rows_are_those_of_spark(spark: SparkSession) -> None:
    rows = orders(spark).withColumn("cents", (F.col("amount") * 100).cast("bigint"))
    totals = {"n": "count(*)", "known": "count(cents)", "total": "sum(cents)", "mean": "avg(cents)"}
    more = {**totals, "most": "max(at)", "least": "min(cents)", "spread": "stddev(cents)"}
    for aggregate in (totals, more):
        grouped = rows.transform(op.GroupChanges(by="user", aggregate=aggregate)).drop("op")
        expected = rows.groupBy("user").agg(*(F.expr(text).alias(name) for name, text in aggregate.items()))
        assert counted(grouped) == counted(expected)
    newest = orders(spark).transform(op.Newest(2, by="user", order=["at", "id"])).drop("op")
    by_age = Window.partitionBy("user").orderBy(F.desc("at"), F.desc("id"))
    ranked = orders(spark).withColumn("rank", F.row_number().over(by_age))
    assert counted(newest) == counted(ranked.where("rank <= 2").drop("rank"))


class Scores:
    """Lists of changes as micro-batches. Each `work` is a run of its own, that goes on where the last one ended."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._input = folder / "input"
        self._input.mkdir()
        self._count = 0
        self.said: Counter[tuple[Any, ...]] = Counter()

    def work(self, *changes: tuple[int, int, str | None, int | None, str]) -> Counter[tuple[Any, ...]]:
        """(id, version, team, points, op)"""
        self._count += 1
        names = ("id", "version", "team", "points", "op")
        lines = [json.dumps(dict(zip(names, change, strict=True))) + "\n" for change in changes]
        (self._input / f"{self._count:04}.json").write_text("".join(lines))
        schema = "id bigint, version bigint, team string, points bigint, op string"
        aggregate = {"n": "count(*)", "total": "sum(points)", "best": "max(points)"}
        query = (
            self._spark.readStream.schema(schema)
            .json(str(self._input))
            .transform(op.Changelog(key="id", order="version"))
            .transform(op.GroupChanges(by="team", aggregate=aggregate))
            .writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return self.said

    def _keep(self, batch: DataFrame, number: int) -> None:
        for *row, sign in batch.collect():
            self.said[tuple(row)] += 1 if sign == "+" else -1
        assert min(self.said.values(), default=0) >= 0
        self.said = +self.said


def test_groups_of_a_stream_follow_rows_that_change_their_group_across_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    scores = Scores(spark, tmp_path)
    said = scores.work(
        (1, 2, "red", 5, "u"), (1, 1, "red", 4, "c"), (2, 1, "red", 7, "c"), (3, 1, None, 1, "c")
    )
    assert said == Counter([("red", 2, 12, 7), (None, 1, 1, 1)])
    # One changes the team, one is deleted; what is older, or known already, changes nothing.
    said = scores.work(
        (2, 2, "blue", 7, "u"), (1, 1, "old", 9, "u"), (1, 2, "red", 5, "u"), (3, 2, None, None, "d")
    )
    assert said == Counter([("blue", 1, 7, 7), ("red", 1, 5, 5)])


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda spark: orders(spark).transform(op.JoinTables(users(spark), on="usr")), "on"),
        (lambda spark: users(spark).transform(op.JoinTables(orders(spark), on="city")), "on"),
        (lambda spark: orders(spark).transform(op.JoinTables(users(spark), on={"id": "user"})), "on"),
        (lambda spark: orders(spark).transform(op.JoinTables(orders(spark), on="tags")), "on"),
        (lambda spark: orders(spark).transform(op.JoinTables(orders(spark), on="user")), "other"),
        (
            lambda spark: (
                spark.readStream.format("rate")
                .load()
                .transform(
                    op.JoinTables(users(spark).withColumn("value", F.lit(1).cast("bigint")), on="value")
                )
            ),
            "other",
        ),
        (lambda spark: orders(spark).transform(op.JoinTables(users(spark), on="user", key="id")), "order"),
        (lambda spark: orders(spark).transform(op.Changelog(key="idd", order="at")), "key"),
        (lambda spark: orders(spark).transform(op.Changelog(key="id", order="when")), "order"),
        (lambda spark: orders(spark).transform(op.Changelog(key="id", order="where")), "order"),
        (lambda spark: orders(spark).transform(op.Changelog(key="tags", order="at")), "key"),
        (
            lambda spark: (
                orders(spark)
                .transform(op.Changelog(key="id", order="at"))
                .transform(op.Changelog(key="id", order="at"))
            ),
            "key",
        ),
        (lambda spark: orders(spark).withColumn("op", F.lit(1)).transform(op.Newest(1, order="at")), "op"),
        (
            lambda spark: (
                orders(spark)
                .withColumns({"op": F.lit("u"), "before": F.struct("id")})
                .transform(op.Newest(1, order="at"))
            ),
            "op",
        ),
        (lambda spark: orders(spark).transform(op.Newest(1, order="when")), "order"),
        (lambda spark: orders(spark).transform(op.Newest(1, by="usr", order="at")), "by"),
        (lambda spark: orders(spark).transform(op.GroupChanges(by="tags")), "by"),
        (
            lambda spark: orders(spark).transform(op.GroupChanges(aggregate={"n": "sum(nothing)"})),
            "aggregate",
        ),
        (lambda spark: orders(spark).transform(op.GroupChanges(aggregate={"n": "sum(user)"})), "aggregate"),
    ],
)
def test_an_operator_that_does_not_fit_the_rows_is_refused_when_it_is_applied(
    spark: SparkSession, make: Callable[[SparkSession], DataFrame], field: str
) -> None:
    with pytest.raises(op.BadOperator) as refused:
        make(spark)
    assert refused.value.field == field
    assert refused.value.hint


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: op.JoinTables("users", on="id"), "other"),  # type: ignore[arg-type]
        (lambda: op.Changelog(key=[]), "key"),
        (lambda: op.Changelog(key="id", order=[]), "order"),
        (lambda: op.Changelog(key=["id", "id"]), "key"),
        (lambda: op.GroupChanges(aggregate={}), "aggregate"),
        (lambda: op.GroupChanges(aggregate={"n": "first(x)"}), "aggregate"),
        (lambda: op.GroupChanges(aggregate={"n": "count(distinct x)"}), "aggregate"),
        (lambda: op.GroupChanges(by="n", aggregate={"n": "count(*)"}), "by"),
        (lambda: op.Newest(0, order="at"), "count"),
        (lambda: op.Newest(True, order="at"), "count"),
        (lambda: op.Newest(1, order=[]), "order"),
        (lambda: op.Newest(10, order="at", keep=9), "keep"),
    ],
)
def test_invalid_arguments_are_refused_by_the_constructor(make: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as refused:
        make()
    assert refused.value.field == field
    assert refused.value.hint


def test_how_and_on_are_checked_by_the_constructor_of_a_join(spark: SparkSession) -> None:
    for given, field in (
        ({"on": []}, "on"),
        ({"on": {}}, "on"),
        ({"on": "user", "how": "right"}, "how"),
        ({"on": "name"}, "on"),
        ({"on": {"a": "user", "b": "user"}}, "on"),
    ):
        with pytest.raises(op.BadOperator) as refused:
            op.JoinTables(users(spark), **given)
        assert refused.value.field == field


def test_invalid_changes_fail_the_job_with_a_remedy(spark: SparkSession) -> None:
    updates = users(spark).withColumn("op", F.lit("u"))
    with pytest.raises(PySparkException, match="For changes by key, name the primary key"):
        updates.transform(op.GroupChanges(by="city")).collect()
    with pytest.raises(PySparkException, match=r"null in its key .*NOT NULL"):
        updates.transform(op.Changelog(key="user", order="city")).collect()
