"""Windows by the clock on the wall: a row's time is when the micro-batch that reads it began.

Spark writes that time down with the batch, before it works on it. So a batch that is done again after a crash has the
same time, and its rows are in the same windows. The watermark is the time of the newest batch that had rows.
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
    """What `time=` may be instead of a column."""

    PROCESSING_TIME = "processing time"


PROCESSING_TIME = ProcessingTime.PROCESSING_TIME


def with_arrival(rows: DataFrame, *, operator: str) -> DataFrame:
    from pyspark.sql import functions as F

    if not rows.isStreaming:
        raise BadOperator(
            operator,
            "time",
            "is the processing time; but bounded rows are all there at once, and would be in one window",
            hint='name the column that says when they came, such as time="timestamp"',
        )
    watermarked = [each.name for each in rows.schema.fields if WATERMARK_DELAY in each.metadata]
    if watermarked:
        raise BadOperator(
            operator,
            "time",
            f"is the processing time; but column {watermarked[0]!r} has a watermark, and a stream has only one",
            hint="leave the watermark out: read_topic(…) without watermark=",
        )
    return rows.withColumn(ARRIVED, F.current_timestamp()).withWatermark(ARRIVED, "0 seconds")
