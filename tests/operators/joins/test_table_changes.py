"""Changes of a table beside a stream: their times, deletions and order."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.operators.joins.enrich_step import ALWAYS_US
from headrace.operators.joins.table_changes import TableChanges
from headrace.operators.operator import BadOperator


def changes(spark: SparkSession, query: str, **settings: Any) -> TableChanges:
    given = {
        "operator": "Enrich",
        "time": None,
        "time_field": "table_time",
        "deleted": None,
        "is_latest": False,
    }
    return TableChanges(table=spark.sql(query), **{**given, **settings})


def test_change_is_valid_from_its_time_and_always_without_one(spark: SparkSession) -> None:
    query = "select * from values (timestamp'1970-01-01 00:00:01Z'), (null) as t(at)"
    timed = changes(spark, query, time="at")
    assert {row[0] for row in timed.table.select(timed.since_us()).collect()} == {1_000_000, ALWAYS_US}
    newest = changes(spark, "select 1 as id", is_latest=True)
    assert newest.table.select(newest.since_us()).first()[0] == ALWAYS_US  # type: ignore[index]
    with pytest.raises(BadOperator, match="table_time is not set"):
        changes(spark, "select 1 as id").since_us()


def test_deletions_are_based_on_op_or_on_an_expression(spark: SparkSession) -> None:
    query = "select * from values ('+', 1), ('-', 2), ('d', null), (null, 4) as t(op, n)"
    for deleted, expected in ((None, [False, True, True, False]), ("n is null", [False, False, True, False])):
        own = changes(spark, query, deleted=deleted)
        assert [row[0] for row in own.table.select(own.is_deleted()).collect()] == expected


def test_order_is_that_of_the_topic_or_additions_after_deletions(spark: SparkSession) -> None:
    own = changes(spark, "select * from values (7L), (null) as t(_offset)")
    assert [row[0] for row in own.table.select(own.sequence()).collect()] == [7, 0]
    hashed = changes(spark, "select * from values ('+', map(1, 2)), ('-', map(3, 4)) as t(op, m)")
    addition, deletion = (row[0] for row in hashed.table.select(hashed.sequence()).collect())
    assert addition >= 2**62 > deletion >= 0
