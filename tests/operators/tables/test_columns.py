"""Changelogs as DataFrames: the columns of a row, and the meaning of `op`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.tables.columns import as_changelog, is_changelog, own_columns, weight
from tests.operators.tables.orders import orders, users


def test_another_op_fails_the_job_with_a_remedy(spark: SparkSession) -> None:
    updates = users(spark).withColumn("op", F.lit("u"))
    with pytest.raises(PySparkException, match="For changes by key, name the primary key"):
        updates.transform(op.GroupChanges(by="city")).collect()


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda spark: orders(spark).withColumn("op", F.lit(1)).transform(op.Newest(1, order="at")), "op"),
        (
            lambda spark: (
                orders(spark)
                .withColumns({"op": F.lit("u"), "before": F.struct("id")})
                .transform(op.Newest(1, order="at"))
            ),
            "op",
        ),
    ],
)
def test_an_op_that_is_not_of_a_changelog_is_rejected(
    spark: SparkSession, create: Callable[[SparkSession], DataFrame], field: str
) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create(spark)
    assert rejected.value.field == field
    assert rejected.value.hint


@pytest.mark.parametrize(
    ("columns", "keep", "expected"),
    [
        (["id AS user", "id AS _offset"], (), ["user"]),
        (["id AS user", "id AS _offset"], ("_offset",), ["user", "_offset"]),
        (["id AS user", "'u' AS op", "struct(id) AS before"], (), ["user"]),
        (["id AS user", "'+' AS op", "id AS before"], (), ["user", "before"]),
        (["id AS user", "struct(id) AS before"], (), ["user", "before"]),
    ],
)
def test_the_columns_of_a_row_exclude_op_and_metadata(
    spark: SparkSession, columns: list[str], keep: tuple[str, ...], expected: list[str]
) -> None:
    assert own_columns(spark.range(1).selectExpr(*columns), keep=keep) == expected


def test_additions_weigh_one_and_retractions_minus_one(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("+",), ("-",), (None,)], "op string")
    assert [row.weight for row in rows.select(weight(rows, operator="Newest")).collect()] == [1, -1, 1]
    plain = spark.range(2)
    assert [row.weight for row in plain.select(weight(plain, operator="Newest")).collect()] == [1, 1]


def test_the_mark_of_a_changelog_is_in_its_schema(spark: SparkSession) -> None:
    rows = spark.range(1).selectExpr("id", "'+' AS op")
    assert not is_changelog(rows)
    assert is_changelog(as_changelog(rows))
