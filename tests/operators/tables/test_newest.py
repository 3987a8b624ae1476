"""The newest rows of each key on Spark, and settings that are rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from headrace import operators as op
from tests.operators.tables.orders import counted, orders


def test_the_newest_of_bounded_rows_are_those_of_spark(spark: SparkSession) -> None:
    newest = orders(spark).transform(op.Newest(2, by="user", order=["at", "id"])).drop("op")
    by_age = Window.partitionBy("user").orderBy(F.desc("at"), F.desc("id"))
    ranked = orders(spark).withColumn("rank", F.row_number().over(by_age))
    assert counted(newest) == counted(ranked.where("rank <= 2").drop("rank"))


def test_the_rank_is_the_row_number_of_spark(spark: SparkSession) -> None:
    order = [F.asc("amount"), F.desc("id"), F.asc("at")]
    scores = orders(spark).dropDuplicates(["id"]).withColumn("half", F.col("amount").cast("double") / 2)
    by_user = Window.partitionBy("user")
    for given in (
        order,
        {"amount": "asc", "id": "desc", "at": "asc"},
        [F.desc_nulls_first("half"), F.asc("id")],
    ):
        columns = order if isinstance(given, dict) else given
        newest = scores.transform(op.Newest(2, by="user", order=given, rank="place"))
        assert newest.columns == [*scores.columns, "place", "op"]
        expected = scores.withColumn("place", F.row_number().over(by_user.orderBy(*columns)))
        assert counted(newest.drop("op")) == counted(expected.where("place <= 2"))
        assert newest.schema["place"].dataType == expected.schema["place"].dataType


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Newest(0, order="at"), "count"),
        (lambda: op.Newest(True, order="at"), "count"),
        (lambda: op.Newest(1, order=[]), "order"),
        (lambda: op.Newest(10, order="at", keep=9), "keep"),
        (lambda: op.Newest(1, order={"at": "down"}), "order"),
        (lambda: op.Newest(1, order="at", rank=""), "rank"),
        (lambda: op.Newest(1, order="at", rank="op"), "rank"),
        (lambda: op.Newest(1, order="at", rank=cast("str", True)), "rank"),
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
        (lambda spark: orders(spark).transform(op.Newest(1, order="when")), "order"),
        (lambda spark: orders(spark).transform(op.Newest(1, by="usr", order="at")), "by"),
        (lambda spark: orders(spark).transform(op.Newest(1, order={"when": "asc"})), "order"),
        (lambda spark: orders(spark).transform(op.Newest(1, order="at", rank="id")), "rank"),
    ],
)
def test_columns_that_do_not_exist_are_rejected_when_it_is_applied(
    spark: SparkSession, create: Callable[[SparkSession], DataFrame], field: str
) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create(spark)
    assert rejected.value.field == field
    assert rejected.value.hint
