"""Expressions of Spark's plans as nodes."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.operators.arrow_stage.catalyst import Node, delay_ms, read_expression, read_expressions


def listed(spark: SparkSession, *texts: str) -> tuple[Node, ...]:
    rows = spark.range(1).select(*(F.expr(text).alias(f"x{n}") for n, text in enumerate(texts)))
    return read_expressions(rows._jdf.queryExecution().analyzed().projectList())


def names(node: Node) -> list[Any]:
    return [node.name, *(names(each) for each in node.children)]


def test_a_list_of_expressions_is_read_with_their_children(spark: SparkSession) -> None:
    first, second = listed(spark, "id + 1 > 5 and id is null", "'é'")
    attribute, long = ["AttributeReference"], ["Cast", ["Literal"]]
    sum_ = ["Add", attribute, long]
    assert names(first) == ["Alias", ["And", ["GreaterThan", sum_, long], ["IsNull", attribute]]]
    assert names(second) == ["Alias", ["Literal"]]
    assert second.children[0].fields["value"] == "é"
    assert second.fields["name"] == "x1"
    assert first.expr_id != second.expr_id


def test_setting_is_read_from_the_expression_itself(spark: SparkSession) -> None:
    _, second, third = listed(spark, "id", "nullif(try_add(id, 1), 2)", "'a' like 'b' escape '/'")

    def named(node: Node, name: str) -> list[Node]:
        below = [found for each in node.children for found in named(each, name)]
        return [node, *below] if node.name == name else below

    assert {each.setting("evalContext", "evalMode") for each in named(second, "Add")} == {"TRY"}
    assert third.children[0].setting("escapeChar") == "/"


def test_no_expressions_are_read_without_a_call(spark: SparkSession) -> None:
    assert read_expressions(spark.range(1).select()._jdf.queryExecution().analyzed().projectList()) == ()


def test_delay_of_a_watermark_is_in_milliseconds(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute 5 seconds")
    node = rows._jdf.queryExecution().analyzed()
    assert delay_ms(node) == 65_000
    assert read_expression(node.eventTime()).fields["name"] == "timestamp"
