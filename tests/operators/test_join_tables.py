"""Joins of tables on Spark: bounded rows beside Spark's own joins, and joins that are rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.join_tables import How
from tests.operators.tables.orders import counted, orders, users


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


def test_how_and_on_are_checked_by_the_constructor_of_a_join(spark: SparkSession) -> None:
    for given, field in (
        ({"on": []}, "on"),
        ({"on": {}}, "on"),
        ({"on": "user", "how": "right"}, "how"),
        ({"on": "name"}, "on"),
        ({"on": {"a": "user", "b": "user"}}, "on"),
    ):
        with pytest.raises(op.BadOperator) as rejected:
            op.JoinTables(users(spark), **given)
        assert rejected.value.field == field


@pytest.mark.parametrize(
    ("create", "field"),
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
    ],
)
def test_a_join_that_does_not_fit_the_tables_is_rejected_when_it_is_applied(
    spark: SparkSession, create: Callable[[SparkSession], DataFrame], field: str
) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create(spark)
    assert rejected.value.field == field
    assert rejected.value.hint


def test_the_other_side_must_be_a_dataframe() -> None:
    with pytest.raises(op.BadOperator, match="must be a DataFrame") as rejected:
        op.JoinTables("users", on="id")  # type: ignore[arg-type]
    assert rejected.value.field == "other"
