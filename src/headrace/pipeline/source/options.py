"""Changes the options of the sources in an existing DataFrame.

Spark fixes the options when the source is created, before the mode of the job is known. Real-time mode has no batches,
and rejects a source with a limit for batches. So the plan is rebuilt with other options at its leaves.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

BATCH_BOUND = "maxOffsetsPerTrigger"


def without_batch_bound(rows: DataFrame) -> DataFrame:
    """The same rows, for real-time mode."""
    spark = rows.sparkSession
    jvm: Any = spark._jvm
    plan = _rebuilt(spark, rows._jdf.queryExecution().logical())
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def _rebuilt(spark: SparkSession, node: Any) -> Any:
    children = _list(node.children())
    if children:
        jvm: Any = spark._jvm
        rebuilt = jvm.PythonUtils.toSeq([_rebuilt(spark, child) for child in children])
        return node.withNewChildren(rebuilt.toIndexedSeq())
    if node.getClass().getSimpleName() != "StreamingRelationV2":
        return node
    return node.makeCopy(_without_bound(spark, node))


def _without_bound(spark: SparkSession, leaf: Any) -> Any:
    """The constructor arguments of the leaf, with other options."""
    jvm: Any = spark._jvm
    options = jvm.java.util.HashMap(leaf.extraOptions().asCaseSensitiveMap())
    for name in list(options):
        if name.lower() == BATCH_BOUND.lower():
            options.remove(name)
    changed = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(options)
    gateway: Any = spark.sparkContext._gateway
    arguments = gateway.new_array(jvm.java.lang.Object, leaf.productArity())
    for position in range(leaf.productArity()):
        is_options = leaf.productElementName(position) == "extraOptions"
        arguments[position] = changed if is_options else leaf.productElement(position)
    return arguments


def _list(scala_seq: Any) -> list[Any]:
    return [scala_seq.apply(position) for position in range(scala_seq.size())]
