"""Rows that no other row followed in time: an order without a payment, a machine without a heartbeat."""

from __future__ import annotations

import functools
import operator
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from headrace.operators.emitted_times import require_final_rows, require_no_lag
from headrace.operators.joins.interval_join import IntervalJoin, StreamSide, are_in_core
from headrace.operators.joins.interval_step import IntervalRules
from headrace.operators.joins.sides import (
    JoinSide,
    On,
    Pairs,
    on_text,
    read_on,
    require_frame,
    require_like_sides,
    require_like_times,
)
from headrace.operators.operator import (
    Duration,
    Operator,
    any_null,
    column,
    duration_us,
    event_time_column,
    interval_text,
    require_watermark,
    time_name,
)
from headrace.operators.windows.skipped_rows import has_no_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KIND = "Absence"


@dataclass(frozen=True, slots=True)
class Absence(Operator):
    """Emit each row that no row of the other side with the same key followed in time.

        orders.transform(op.Absence(of=payments, on="order", within="30 minutes"))
        heartbeats.transform(op.Absence(on="machine", within="30 seconds"))

    A row is emitted, with its own columns and its own event time, when the watermark has passed the end of its time:
    no other row can come any more. A row of the other side at the same time as the row, or exactly `within` after it,
    is in time. A row without a key or without a time can't be followed, and is not emitted.

    of           the rows that are expected, a stream if the rows are a stream; by default the next row of the same
                 rows, which must be later
    on           the columns to compare: a name, several names, or {name in the rows: name on the other side}
    within       how long after a row another one is expected
    time         the event-time column; by default the column that the source declared
    other_time   the event-time column of the other side
    """

    of: DataFrame | None = None
    _: KW_ONLY
    on: On
    within: Duration
    time: str | None = None
    other_time: str | None = None

    def __post_init__(self) -> None:
        if self.of is not None:
            require_frame(self.of, operator=_KIND, field="of")
        _ = self.pairs, self.within_us
        for role in ("time", "other_time"):
            object.__setattr__(self, role, time_name(getattr(self, role), operator=_KIND, field=role))

    @property
    def pairs(self) -> Pairs:
        return read_on(self.on, operator=_KIND)

    @property
    def within_us(self) -> int:
        return duration_us(self.within, operator=_KIND, field="within")

    def __call__(self, rows: DataFrame) -> DataFrame:
        other = rows if self.of is None else self.of
        require_like_sides(rows, other, self.pairs, operator=_KIND, field="of")
        time = event_time_column(rows, self.time, operator=_KIND)
        other_time = event_time_column(
            other, self.other_time or (time if self.of is None else None), operator=_KIND, field="other_time"
        )
        for frame, named, name in ((rows, time, "time"), (other, other_time, "other_time")):
            require_watermark(frame, named, operator=_KIND, field=name)
            require_final_rows(frame, operator=_KIND, field=name)
        require_like_times(rows, other, time, other_time, operator=_KIND)
        keys = [here for here, _ in self.pairs]
        rows = rows.filter(~(any_null(keys) | has_no_time(time)))
        expected = other.select(
            *map(column, dict.fromkeys([*(there for _, there in self.pairs), other_time]))
        )
        if rows.isStreaming and are_in_core(rows, expected, self.pairs):
            return self._in_core(rows, expected, time, other_time)
        return self._on_spark(rows, expected, time, other_time)

    def _in_core(self, rows: DataFrame, other: DataFrame, time: str, other_time: str) -> DataFrame:
        join = IntervalJoin(
            operator=_KIND,
            kept_for=f"on={on_text(self.pairs)}; within={self.within_us}; next={self.of is None}; time={time}; "
            f"other_time={other_time}",
            left=StreamSide(rows=rows, time=time),
            right=StreamSide(rows=other, time=other_time),
            pairs=self.pairs,
            rules=IntervalRules(
                low_us=1 if self.of is None else 0,
                high_us=self.within_us,
                emits_pairs=False,
                keeps=(True, False),
            ),
            called={},
        )
        return join()

    def _on_spark(self, rows: DataFrame, other: DataFrame, time: str, other_time: str) -> DataFrame:
        """Spark's own join: for bounded rows, and for types that the core does not have."""
        for frame, named, name in ((rows, time, "time"), (other, other_time, "other_time")):
            require_no_lag(frame, named, operator=_KIND, field=name)
        left, right = JoinSide(rows, "left", time), JoinSide(other, "right", other_time)
        joined = left.frame.join(right.frame, self._condition(left, right), "left_outer")
        return joined.filter(right.at.isNull()).select(
            *(left[name].alias(name, metadata=left.metadata(name)) for name in left.names)
        )

    def _condition(self, left: JoinSide, right: JoinSide) -> Column:
        from pyspark.sql import functions as F

        parts = [left[here] == right[there] for here, there in self.pairs]
        is_after = right.at > left.at if self.of is None else right.at >= left.at
        parts += [is_after, right.at <= left.at + F.expr(f"interval {interval_text(self.within_us)}")]
        return functools.reduce(operator.and_, parts)
