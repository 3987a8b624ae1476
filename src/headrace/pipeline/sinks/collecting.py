"""The rows of a micro-batch on the driver, as Arrow, with as few calls to Spark's JVM as can be.

`DataFrame.toArrow` makes some sixty of them, to look up settings and the schema. Each takes a fraction of a
millisecond, and a small micro-batch has no more than a few dozen in all. This asks for the rows, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.sql.pandas.serializers import ArrowCollectSerializer
from pyspark.util import _create_local_socket

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def collect(batch: DataFrame) -> list[pa.RecordBatch]:
    """All rows, in their order. Types are those that Spark sends; an empty batch is an empty list."""
    jdf: Any = batch._jdf
    port, secret, server = jdf.collectAsArrowToPython()
    try:
        # Not by pyspark's own context manager: where it can't connect, it raises that it has no file to close.
        stream, connection = _create_local_socket((port, secret))
        with connection, stream:
            # As they came; the last item says in which order they belong.
            *batches, order = ArrowCollectSerializer().load_stream(stream)
    finally:
        with unwrap_spark_exception():
            server.getResult()  # raises what went wrong in a task
    return [batches[index] for index in order]
