"""Interval join by key and event time: of streams on the core, of bounded rows by Spark's own join."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.operators.emitted_times import require_final_rows, require_no_lag
from headrace.operators.joins.interval_join import (
    IntervalJoin,
    StreamSide,
    are_in_core,
    names_of_right,
)
from headrace.operators.joins.interval_step import IntervalRules
from headrace.operators.joins.sides import (
    HOW,
    JoinSide,
    On,
    Pairs,
    Unmatched,
    keeps_of,
    on_text,
    read_on,
    require_frame,
    require_like_sides,
    require_like_times,
    result_columns,
)
from headrace.operators.operator import (
    BadOperator,
    Duration,
    Operator,
    duration_us,
    event_time_column,
    interval_text,
    require_one_of,
    require_text,
    require_watermark,
    time_name,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KIND = "JoinWithin"


@dataclass(frozen=True, slots=True)
class JoinWithin(Operator):
    """Join each row with the rows of the other side that have the same key and a time at most `within` apart.

        searches.transform(op.JoinWithin(clicks, on="session", within="1 hour", unmatched="left"))

    other        the other side; a stream if the rows are a stream
    on           the columns to compare: a name, several names, or {name in the rows: name on the other side}
    within       how far apart the times may be in either direction, inclusive
    before       instead of within: how much earlier than this side's row the other side's row may be
    after        instead of within: how much later it may be
    unmatched    the side whose unmatched rows are also emitted, once, when no match can arrive any more: "left" (these
                 rows), "right" (the other side), "both", or None
    time         the event-time column; by default the column that the source declared
    other_time   the event-time column of the other side
    suffix       appended to the name of a column of the other side that both sides have

    A column of `on` with the same name on both sides appears once. The event time of the result is this side's.
    """

    other: DataFrame
    on: On = field(kw_only=True)
    within: Duration | None = field(default=None, kw_only=True)
    before: Duration | None = field(default=None, kw_only=True)
    after: Duration | None = field(default=None, kw_only=True)
    unmatched: Unmatched = field(default=None, kw_only=True)
    time: str | None = field(default=None, kw_only=True)
    other_time: str | None = field(default=None, kw_only=True)
    suffix: str = field(default="_right", kw_only=True)

    def __post_init__(self) -> None:
        require_frame(self.other, operator=_KIND, field="other")
        _ = self.pairs, self.bounds_us
        require_one_of(self.unmatched, Unmatched, operator=_KIND, field="unmatched")
        for role in ("time", "other_time"):
            object.__setattr__(self, role, time_name(getattr(self, role), operator=_KIND, field=role))
        require_text(self.suffix, operator=_KIND, field="suffix", hint='set a suffix such as "_right"')

    @property
    def pairs(self) -> Pairs:
        return read_on(self.on, operator=_KIND)

    @property
    def bounds_us(self) -> tuple[int, int]:
        """How much earlier and how much later than this side's row the other side's row may be."""
        if self.within is not None:
            if self.before is not None or self.after is not None:
                raise BadOperator(
                    _KIND,
                    "within",
                    "is set together with before or after",
                    hint="set within for both directions, or before and after",
                )
            within_us = duration_us(self.within, operator=_KIND, field="within")
            return within_us, within_us
        if self.before is None and self.after is None:
            raise BadOperator(
                _KIND,
                "within",
                "is not set, so every row would stay in the state forever",
                hint='set within="1 hour", or after="1 hour" if the other side is always later',
            )
        before, after = ("0 seconds" if each is None else each for each in (self.before, self.after))
        before_us = duration_us(before, operator=_KIND, field="before", zero=True)
        after_us = duration_us(after, operator=_KIND, field="after", zero=True)
        if before_us == after_us == 0:
            raise BadOperator(
                _KIND,
                "after",
                "and before are 0, so the times would have to be equal",
                hint="if that is intended, add the time to on=, and set within= to the allowed lateness",
            )
        return before_us, after_us

    def __call__(self, rows: DataFrame) -> DataFrame:
        other, pairs = self.other, self.pairs
        require_like_sides(rows, other, pairs, operator=_KIND, field="other")
        time = event_time_column(rows, self.time, operator=_KIND)
        other_time = event_time_column(other, self.other_time, operator=_KIND, field="other_time")
        require_watermark(rows, time, operator=_KIND)
        require_watermark(other, other_time, operator=_KIND, field="other_time")
        for frame, name in ((rows, "time"), (other, "other_time")):
            require_final_rows(frame, operator=_KIND, field=name)
        require_like_times(rows, other, time, other_time, operator=_KIND)
        if rows.isStreaming and are_in_core(rows, other, pairs):
            return self._in_core(rows, other, time, other_time)
        return self._on_spark(rows, other, time, other_time)

    def _in_core(self, rows: DataFrame, other: DataFrame, time: str, other_time: str) -> DataFrame:
        before_us, after_us = self.bounds_us
        join = IntervalJoin(
            operator=_KIND,
            kept_for=f"on={on_text(self.pairs)}; before={before_us}; after={after_us}; unmatched={self.unmatched}; "
            f"time={time}; other_time={other_time}",
            left=StreamSide(rows=rows, time=time),
            right=StreamSide(rows=other, time=other_time),
            pairs=self.pairs,
            rules=IntervalRules(low_us=-before_us, high_us=after_us, keeps=keeps_of(self.unmatched)),
            called=names_of_right(rows, other, self.pairs, suffix=self.suffix, operator=_KIND),
        )
        return join()

    def _on_spark(self, rows: DataFrame, other: DataFrame, time: str, other_time: str) -> DataFrame:
        """Spark's own join: for bounded rows, and for types that the core does not have."""
        pairs = self.pairs
        for frame, column, name in ((rows, time, "time"), (other, other_time, "other_time")):
            require_no_lag(frame, column, operator=_KIND, field=name)
        left, right = JoinSide(rows, "left", time), JoinSide(other, "right", other_time)
        joined = left.frame.join(right.frame, self._condition(left, right), HOW[self.unmatched])
        columns = result_columns(
            left, right, pairs, unmatched=self.unmatched, suffix=self.suffix, operator=_KIND
        )
        return joined.select(*columns)

    def _condition(self, left: JoinSide, right: JoinSide) -> Column:
        from pyspark.sql import functions as F

        before_us, after_us = self.bounds_us
        parts = [left[here] == right[there] for here, there in self.pairs]
        parts += [
            right.at >= left.at - F.expr(f"interval {interval_text(before_us)}"),
            right.at <= left.at + F.expr(f"interval {interval_text(after_us)}"),
        ]
        # In a full outer join of streams, Spark matches null with null, and it never expires a row without a time.
        # With these conditions, Spark emits such rows immediately.
        for side, keys in ((left, [here for here, _ in self.pairs]), (right, [it for _, it in self.pairs])):
            parts += [side[name].isNotNull() for name in (*keys, side.time)]
        return functools.reduce(operator.and_, parts)
