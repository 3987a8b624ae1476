"""The same DataFrame over the current content of its topics: every stream in its plan is replaced by a bounded read.

The plan above the sources is unchanged: a batch is a stream that ends.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

# Options of a stream only, or replaced.
LEFT_OUT = ("maxoffsetspertrigger", "startingoffsets", "headrace.source")


def bounded(rows: DataFrame) -> DataFrame:
    spark = rows.sparkSession
    plan = _rebuilt(spark, rows._jdf.queryExecution().analyzed())
    jvm: Any = spark._jvm
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def _rebuilt(spark: SparkSession, node: Any) -> Any:
    if node.getClass().getSimpleName() == "StreamingRelationV2":
        return _bounded_source(spark, node)
    children = _list(node.children())
    if not children:
        return node
    return node.withNewChildren(_seq(spark, [_rebuilt(spark, child) for child in children]))


def _bounded_source(spark: SparkSession, source: Any) -> Any:
    """A bounded read whose columns keep the expression ids of the stream."""
    assert source.sourceName() == "kafka", f"{source.sourceName()} has no bounded twin here"
    options = {
        name: text
        for name, text in dict(source.extraOptions().asCaseSensitiveMap()).items()
        if name.lower() not in LEFT_OUT
    }
    read = spark.read.format("kafka").options(**options, startingOffsets="earliest").load()
    plan = read._jdf.queryExecution().analyzed()
    catalyst: Any = spark._jvm.org.apache.spark.sql.catalyst  # type: ignore[union-attr]
    columns = [
        catalyst.expressions.Alias(
            found, wanted.name(), wanted.exprId(), wanted.qualifier(), _none(spark), _nil(spark)
        )
        for wanted, found in zip(_list(source.output()), _list(plan.output()), strict=True)
    ]
    return catalyst.plans.logical.Project(_seq(spark, columns), plan)


def _none(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.scala.Option.empty()


def _nil(spark: SparkSession) -> Any:
    return _seq(spark, [])


def _seq(spark: SparkSession, items: list[Any]) -> Any:
    jvm: Any = spark._jvm
    found = jvm.java.util.ArrayList()
    for item in items:
        found.add(item)
    return jvm.PythonUtils.toSeq(found).toIndexedSeq()


def _list(scala_seq: Any) -> list[Any]:
    return [scala_seq.apply(position) for position in range(scala_seq.size())]
