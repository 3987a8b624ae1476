"""Small batches on the driver: how many rows a batch reads, and all of its rows with few calls to Spark's JVM."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.sql.pandas.serializers import ArrowCollectSerializer
from pyspark.util import _create_local_socket

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.pipeline.fence import Fence

DRIVER_ROWS_MAX = 10_000
"""Collecting as many rows takes milliseconds; a transaction or a connection in every task takes longer."""


def collect(batch: DataFrame) -> list[pa.RecordBatch]:
    """All rows on the driver, in their order, with as few calls to Spark's JVM as possible.

    `DataFrame.toArrow` makes some sixty calls, to look up settings and the schema. Each takes a fraction of a
    millisecond, and a small micro-batch has no more than a few dozen in all.
    """
    jdf: Any = batch._jdf
    port, secret, server = jdf.collectAsArrowToPython()
    try:
        # Not by pyspark's own context manager: if it can't connect, it raises that it has no file to close.
        stream, connection = _create_local_socket((port, secret))
        with connection, stream:
            # In any order; the last item has the indices that sort them.
            *batches, order = ArrowCollectSerializer().load_stream(stream)
    finally:
        with unwrap_spark_exception():
            server.getResult()  # raises the error of a task
    return [_without_metadata(batches[index]) for index in order]


def _without_metadata(batch: pa.RecordBatch) -> pa.RecordBatch:
    """As `DataFrame.toArrow`: some targets compare the metadata of columns with their own."""
    import pyarrow as pa

    schema = pa.schema([field.remove_metadata() for field in batch.schema])
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def collect_few(
    batch: DataFrame, fence: Fence, rows_max: int, *, row_bytes: int | None = None
) -> list[pa.RecordBatch] | None:
    """The rows of a batch that reads at most `rows_max` records; None for a larger one.

    If the sources do not show how many records there are, as files, a batch is small if Spark estimates that it has
    `row_bytes` for each of `rows_max` rows at most. None too if Spark finds the rows too many: a few records can close
    a million windows.
    """
    rows = input_rows(fence)
    if rows == float("inf") and row_bytes is not None:
        rows = _estimated_bytes(batch) / row_bytes
    if rows > rows_max:
        return None
    try:
        return collect(batch)
    except Exception as error:
        if "spark.driver.maxResultSize" in str(error):
            return None
        raise


def _estimated_bytes(batch: DataFrame) -> int:
    """By the sizes of files, if it reads files; they are often compressed."""
    plan: Any = batch._jdf.queryExecution()
    return int(plan.optimizedPlan().stats().sizeInBytes())


def input_rows(fence: Fence) -> float:
    """How many records a batch reads at most, by the offsets of its topics; infinity if its sources do not show it."""
    if not fence.ends:
        return float("inf")
    try:
        return sum(_records(start, end) for start, end in zip(fence.starts, fence.ends, strict=True))
    except (ValueError, AttributeError, TypeError, KeyError):
        return float("inf")


def _records(start: str, end: str) -> int:
    """Between two positions in Spark's notation for Kafka: `{"clicks":{"0":12}}`. A new partition starts at 0."""
    if end == "-" or start == end:
        return 0
    before, after = json.loads(start), json.loads(end)
    return sum(
        int(offset) - int(before.get(topic, {}).get(partition, 0))
        for topic, partitions in after.items()
        for partition, offset in partitions.items()
    )
