"""What the sources have in common: the column of the event time, and its checks."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.types import StructType, TimestampType

from headrace.pipeline.errors import BadSource
from headrace.plan_names import EVENT_TIME

IS_BAD = "__headrace_is_bad"
"""The column that says whether a record or a row is bad."""


def named_column(name: str, column: Column, *, is_event_time: bool) -> Column:
    if is_event_time:
        return column.alias(name, metadata={EVENT_TIME: True})
    return column.alias(name)


def check_event_time(schema: StructType, event_time: str) -> None:
    kind = schema[event_time].dataType
    if not isinstance(kind, TimestampType):
        raise BadSource(
            f"the event time {event_time} is of type {kind.simpleString()}",
            hint=f'it has to be a TIMESTAMP: schema="{event_time} TIMESTAMP, …"',
        )


def check_watermark(event_time: str | None, watermark: str | None, *, hint: str) -> None:
    if watermark is not None and event_time is None:
        raise BadSource("a watermark needs an event time", hint=hint)
