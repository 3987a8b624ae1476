"""The event time of rows that an operator emits, so that the next operator knows when they are complete.

A stream has one watermark, which its source declares. Behind an operator, rows may follow that watermark with a lag: an
enrichment waits for entries, a window corrects its results. The metadata of the event-time column has that lag, and
the next operator subtracts it from the watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from headrace.operators.operator import BadOperator
from headrace.plan_names import CHANGELOG, EMITTED_TIME, EVENT_TIME, WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

LAST_INSTANT = "_last_instant"
"""The column with the last instant of a window, which is the time of its result in another window."""

Panes = Literal["one", "retracting", "accumulating", "discarding"]


class EmittedTime(Struct, frozen=True, kw_only=True):
    """How an operator emits the rows of an event-time column."""

    lag_us: int = 0
    """How long after the watermark has passed their time rows are still emitted."""
    is_window_end: bool = False
    """The column is the end of a window, which is not part of it."""
    panes: Panes = "one"
    """`one` if a result is emitted once; otherwise how panes of the same window follow each other."""


def emitted_time(rows: DataFrame, time: str) -> EmittedTime:
    return _of(rows.schema[time])


def _of(column: StructField) -> EmittedTime:
    return convert(column.metadata.get(EMITTED_TIME, {}), EmittedTime)


def time_metadata(before: StructField, emitted: EmittedTime) -> dict[str, Any]:
    """The metadata of an event-time column. `before` is the column of the operator's input."""
    metadata: dict[str, Any] = {EVENT_TIME: True, EMITTED_TIME: to_builtins(emitted)}
    if WATERMARK_DELAY in before.metadata:
        metadata[WATERMARK_DELAY] = before.metadata[WATERMARK_DELAY]
    return metadata


def with_emitted_time(rows: DataFrame, name: str, before: StructField, emitted: EmittedTime) -> DataFrame:
    """The rows with an event-time column."""
    from pyspark.sql import functions as F

    time = F.col(f"`{name}`").alias(name, metadata=time_metadata(before, emitted))
    return rows.withColumn(name, time)


def with_last_instant(rows: DataFrame, time: str) -> tuple[DataFrame, str]:
    """The rows with the column that assigns them to windows. The result of a window is in the window that includes it:
    minutes until 11:00 are in the hour before."""
    from pyspark.sql import functions as F

    emitted = emitted_time(rows, time)
    if not emitted.is_window_end:
        return rows, time
    metadata = time_metadata(rows.schema[time], replace(emitted, is_window_end=False))
    instant = (F.col(f"`{time}`") - F.expr("interval 1 microsecond")).alias(LAST_INSTANT, metadata=metadata)
    return rows.withColumn(LAST_INSTANT, instant), LAST_INSTANT


def require_final_rows(rows: DataFrame, *, operator: str, field: str = "time") -> None:
    """Raise if a stream has rows that are retracted or replaced later, which the operator would count twice."""
    if not rows.isStreaming:
        return
    panes = panes_of(rows)
    if panes != "one":
        raise BadOperator(
            operator,
            field,
            f"is of windows that emit several panes ({panes}), and each would be counted",
            hint="remove the trigger or late=Correct(…) of that window"
            + (", or use GroupChanges, which applies retractions" if panes == "retracting" else ""),
        )
    if any(each.metadata.get(CHANGELOG) for each in rows.schema):
        raise BadOperator(
            operator,
            field,
            "is of a changelog, whose rows may be retracted later",
            hint="use GroupChanges, JoinTables or Newest, which apply retractions",
        )


def panes_of(rows: DataFrame) -> Panes:
    """How the windows that emitted these rows emit panes; `one` if none did."""
    panes = (_of(each).panes for each in rows.schema)
    return next((each for each in panes if each != "one"), "one")


def lag_of(rows: DataFrame) -> int:
    """How long after the watermark rows are emitted, in microseconds."""
    return max((_of(each).lag_us for each in rows.schema), default=0)


def require_no_lag(rows: DataFrame, time: str, *, operator: str, field: str) -> None:
    """Raise if an operator that runs natively on Spark would take rows for late that it has not had yet."""
    lag_us = emitted_time(rows, time).lag_us
    if rows.isStreaming and lag_us > 0:
        raise BadOperator(
            operator,
            field,
            f"is column {time!r}, whose rows the operator before emits up to {lag_us / 1e6:g} s after the "
            f"watermark, and {operator} would drop them as late",
            hint=f"apply {operator} first, or remove wait=, keep= or late=Correct(…) of the operator before",
        )
