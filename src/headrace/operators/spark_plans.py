"""Spark's logical plans as objects of the JVM: their parts, DataFrames of them, and parts that replace others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Node = Any
"""A node of a plan."""


def analyzed(rows: DataFrame) -> Node:
    return rows._jdf.queryExecution().analyzed()


def frame_of(plan: Node, spark: SparkSession) -> DataFrame:
    from pyspark.sql import DataFrame

    jvm: Any = spark._jvm
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def kind_of(node: Node) -> str:
    """The name of the class of a node, or of an expression."""
    name: str = node.getClass().getSimpleName()
    return name


def children_of(node: Node) -> list[Node]:
    return list(elements(node.children()))


def with_children(node: Node, children: list[Node], spark: SparkSession) -> Node:
    jvm: Any = spark._jvm
    return node.withNewChildren(jvm.PythonUtils.toSeq(children).toIndexedSeq())


def union_sides(rows: DataFrame) -> list[DataFrame]:
    """The sides of a union, and of unions in them; the rows themselves if they are no union."""

    def sides(plan: Node) -> Iterator[Node]:
        if kind_of(plan) != "Union":
            yield plan
            return
        for child in children_of(plan):
            yield from sides(child)

    found = list(sides(analyzed(rows)))
    return [frame_of(each, rows.sparkSession) for each in found] if len(found) > 1 else [rows]


def with_columns_of(node: Node, other: Node, spark: SparkSession) -> Node | None:
    """The other plan, in which the columns have the identities and the metadata of those of the node, so that it can
    replace the node; None if a column has another name or type."""
    jvm: Any = spark._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    columns, others = list(elements(node.output())), list(elements(other.output()))
    if [_described(each) for each in columns] != [_described(each) for each in others]:
        return None
    nothing = jvm.PythonUtils.toSeq([])
    named = [
        catalyst.expressions.Alias(
            new, old.name(), old.exprId(), nothing, jvm.scala.Option.apply(old.metadata()), nothing
        )
        for old, new in zip(columns, others, strict=True)
    ]
    return catalyst.plans.logical.Project(jvm.PythonUtils.toSeq(named), other)


def _described(column: Any) -> tuple[str, str]:
    return column.name(), column.dataType().json()


def elements(scala_seq: Any) -> Iterator[Any]:
    """The elements of a Scala sequence, read when they are needed: each is a call of a method of the JVM."""
    return (scala_seq.apply(position) for position in range(scala_seq.size()))
