"""Expressions that fail on some rows."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.views.sql.failures import VALUE, can_fail, failure, tried

ROWS = [(1, 0, "x"), (6, 2, "7"), (None, 2, "8")]
SCHEMA = "a INT, b INT, c STRING"


def test_failed_expression_is_null_and_stops_nothing_even_if_parts_of_it_repeat(spark: SparkSession) -> None:
    rows = spark.createDataFrame(ROWS, SCHEMA)
    expressions = ["a / b", "a / b + a / b", "cast(c as int) + cast(c as int)"]
    found = rows.select(*(tried(rows, sql).alias(f"t{n}") for n, sql in enumerate(expressions)))
    results = [[None if each is None else each[VALUE] for each in row] for row in found.collect()]
    missing = [[each is None for each in row] for row in found.collect()]
    assert results == [[None, None, None], [3.0, 6.0, 14], [None, None, 16]]
    assert missing == [[True, True, True], [False] * 3, [False] * 3]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a", False),
        ("a > 3 and c like 'x%'", False),
        ("coalesce(upper(c), 'none')", False),
        ("cast(a as bigint) = 7L", False),
        ("case when a is null then c else 'y' end", False),
        ("a / b", True),
        ("a + 1", True),
        ("c = 5", True),
        ("cast(c as date)", True),
    ],
)
def test_only_expressions_that_may_fail_are_tried(spark: SparkSession, sql: str, expected: bool) -> None:
    assert can_fail(spark.createDataFrame(ROWS, SCHEMA), sql) is expected


def test_failure_has_the_row_under_the_users_names_and_the_reason(spark: SparkSession) -> None:
    rows = spark.createDataFrame(ROWS[:1], SCHEMA).withColumn("d", F.lit(None).cast("int"))
    text = rows.select(failure(["a", "c", "d"], {"a": "amount"}, "amount / 0")).collect()[0][0]
    found = json.loads(text)
    assert found["row"] == {"amount": 1, "c": "x", "d": None}
    assert found["reason"].startswith("amount / 0 cannot be computed")
