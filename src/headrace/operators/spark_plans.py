"""Spark's logical plans as objects of the JVM: their parts, DataFrames of them, and parts that replace others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Node = Any
"""A node of a plan."""


def analyzed(rows: DataFrame) -> Node:
    return rows._jdf.queryExecution().analyzed()


def frame_of(plan: Node, spark: SparkSession) -> DataFrame:
    jvm: Any = spark._jvm
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def kind_of(node: Node) -> str:
    """The name of the node's class."""
    name: str = node.getClass().getSimpleName()
    return name


def children_of(node: Node) -> list[Node]:
    return listed(node.children())


def with_children(node: Node, children: list[Node], spark: SparkSession) -> Node:
    jvm: Any = spark._jvm
    return node.withNewChildren(jvm.PythonUtils.toSeq(children).toIndexedSeq())


def with_columns_of(node: Node, other: Node, spark: SparkSession) -> Node | None:
    """The other plan, in which the columns have the identities and the metadata of those of the node, so that it can
    replace the node; None if a column has another name or type."""
    jvm: Any = spark._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    columns, others = listed(node.output()), listed(other.output())
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


def listed(scala_seq: Any) -> list[Any]:
    return [scala_seq.apply(position) for position in range(scala_seq.size())]
