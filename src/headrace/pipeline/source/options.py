"""Changes the options of the sources in an existing DataFrame.

Spark fixes the options when the source is created, before the mode of the job is known. Real-time mode has no batches,
and rejects a source with a limit for batches. It waits for records, which micro-batches never do. So the plan is
rebuilt with other options at its leaves.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.operators.spark_plans import Node, analyzed, children_of, frame_of, kind_of, with_children

BATCH_BOUND = "maxOffsetsPerTrigger"

FETCH_WAIT = "kafka.fetch.max.wait.ms"
FETCH_WAIT_MS = 10
"""How long the broker keeps a fetch of a micro-batch for which it has no records. A batch reads only records that
exist, but Spark's consumer fetches ahead at the end of the log, and its next request for offsets waits behind that
fetch: with Kafka's own 500 ms, each batch that reaches the end takes half a second longer."""


def without_batch_options(rows: DataFrame) -> DataFrame:
    """The same rows, for real-time mode."""
    spark = rows.sparkSession
    return frame_of(_rebuilt(spark, analyzed(rows)), spark)


def _rebuilt(spark: SparkSession, node: Node) -> Node:
    children = children_of(node)
    if children:
        return with_children(node, [_rebuilt(spark, child) for child in children], spark)
    return node.makeCopy(_without_batches(spark, node)) if kind_of(node) == "StreamingRelationV2" else node


def _without_batches(spark: SparkSession, leaf: Any) -> Any:
    """The constructor arguments of the leaf, with other options."""
    jvm: Any = spark._jvm
    options = jvm.java.util.HashMap(leaf.extraOptions().asCaseSensitiveMap())
    for name in list(options):
        is_fetch_wait = name.lower() == FETCH_WAIT and options[name] == str(FETCH_WAIT_MS)
        if name.lower() == BATCH_BOUND.lower() or is_fetch_wait:
            options.remove(name)
    changed = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(options)
    gateway: Any = spark.sparkContext._gateway
    arguments = gateway.new_array(jvm.java.lang.Object, leaf.productArity())
    for position in range(leaf.productArity()):
        is_options = leaf.productElementName(position) == "extraOptions"
        arguments[position] = changed if is_options else leaf.productElement(position)
    return arguments
