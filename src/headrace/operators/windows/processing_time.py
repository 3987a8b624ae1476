"""Windows in processing time: the time of a row is the start of the micro-batch that reads it.

Spark writes this time to the checkpoint before it runs the batch. So a batch that is retried after a crash has the same
time, and its rows are in the same windows. The watermark is the time of the last batch with rows.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from headrace.operators.operator import BadOperator
from headrace.plan_names import WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ARRIVED = "__arrived"
"""The column with the time of the batch."""


class ProcessingTime(Enum):
    """The value of `time=` for windows in processing time."""

    PROCESSING_TIME = "processing time"


PROCESSING_TIME = ProcessingTime.PROCESSING_TIME


def with_arrival(rows: DataFrame, *, operator: str) -> DataFrame:
    from pyspark.sql import functions as F

    if not rows.isStreaming:
        raise BadOperator(
            operator,
            "time",
            "is PROCESSING_TIME, but bounded rows are read at once and would all be in one window",
            hint='name a column with the time of the rows, such as time="timestamp"',
        )
    watermarked = [each.name for each in rows.schema.fields if WATERMARK_DELAY in each.metadata]
    if watermarked:
        raise BadOperator(
            operator,
            "time",
            f"is PROCESSING_TIME, but column {watermarked[0]!r} has a watermark, and a stream has only one",
            hint="remove the watermark: read_topic(…) without watermark=",
        )
    return rows.withColumn(ARRIVED, F.current_timestamp()).withWatermark(ARRIVED, "0 seconds")
