"""Window join by key and tumbling window: of streams on the core, of bounded rows by Spark's own join.

The end of the window is one of the compared columns, and the time of both sides.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.operators.emitted_times import (
    EmittedTime,
    emitted_time,
    require_final_rows,
    require_no_lag,
    time_metadata,
    with_emitted_time,
)
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
    result_columns,
)
from headrace.operators.operator import (
    BadOperator,
    Duration,
    Operator,
    column,
    duration_us,
    event_time_column,
    interval_text,
    require_one_of,
    require_text,
    require_watermark,
    time_name,
    time_us,
)
from headrace.operators.windows.skipped_rows import has_no_time
from headrace.plan_names import EMITTED_TIME, EVENT_TIME, WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KIND = "JoinWindow"
START, END = "window_start", "window_end"
_TIMES = (EVENT_TIME, EMITTED_TIME, WATERMARK_DELAY)
"""The metadata of event times. The only event time of the join is the end of the window."""


@dataclass(frozen=True, slots=True)
class JoinWindow(Operator):
    """Join each row with the rows of the other side that have the same key and are in the same tumbling window.

        searches.transform(op.JoinWindow(clicks, on="session", length="10 minutes", unmatched="left"))

    other        the other side; a stream if the rows are a stream
    on           the columns to compare: a name, several names, or {name in the rows: name on the other side}
    length       the length of a window
    offset       the start of the first window, as a duration since the epoch: "15 minutes" for hours from quarter past
    unmatched    the side whose unmatched rows are also emitted, once, when their window has ended: "left" (these
                 rows), "right" (the other side), "both", or None
    time         the event-time column; by default the column that the source declared
    other_time   the event-time column of the other side
    suffix       appended to the name of a column of the other side that both sides have

    The result has the columns of both sides (a column of `on` with the same name once), `window_start` and
    `window_end`, which is the event time of the result.
    """

    other: DataFrame
    on: On = field(kw_only=True)
    length: Duration = field(kw_only=True)
    offset: Duration = field(default="0 seconds", kw_only=True)
    unmatched: Unmatched = field(default=None, kw_only=True)
    time: str | None = field(default=None, kw_only=True)
    other_time: str | None = field(default=None, kw_only=True)
    suffix: str = field(default="_right", kw_only=True)

    def __post_init__(self) -> None:
        require_frame(self.other, operator=_KIND, field="other")
        _ = self.pairs, self.length_us, self.offset_us
        require_one_of(self.unmatched, Unmatched, operator=_KIND, field="unmatched")
        for role in ("time", "other_time"):
            object.__setattr__(self, role, time_name(getattr(self, role), operator=_KIND, field=role))
        require_text(self.suffix, operator=_KIND, field="suffix", hint='set a suffix such as "_right"')

    @property
    def pairs(self) -> Pairs:
        return read_on(self.on, operator=_KIND)

    @property
    def length_us(self) -> int:
        return duration_us(self.length, operator=_KIND, field="length")

    @property
    def offset_us(self) -> int:
        return duration_us(self.offset, operator=_KIND, field="offset", zero=True)

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        require_like_sides(rows, self.other, self.pairs, operator=_KIND, field="other")
        pairs = (*self.pairs, (END, END))
        in_windows = self._in_windows(rows, self.time, "time")
        others = self._in_windows(self.other, self.other_time, "other_time")
        lag_us = 0
        if rows.isStreaming and are_in_core(in_windows, others, pairs):
            join = self._in_core(in_windows, others, pairs)
            results, lag_us = join(), join.emitted_lag_us
        else:
            results = self._on_spark(in_windows, others, pairs)
        before, end = in_windows.schema[END], F.col(END)
        windows = results.select(
            *(column(name) for name in results.columns if name != END),
            (end - F.expr(f"interval {interval_text(self.length_us)}")).alias(START),
            end,
        )
        return with_emitted_time(windows, END, before, EmittedTime(is_window_end=True, lag_us=lag_us))

    def _in_core(self, rows: DataFrame, other: DataFrame, pairs: Pairs) -> IntervalJoin:
        return IntervalJoin(
            operator=_KIND,
            kept_for=f"on={on_text(self.pairs)}; length={self.length_us}; offset={self.offset_us}; "
            f"unmatched={self.unmatched}; time={self.time}; other_time={self.other_time}",
            left=StreamSide(rows=rows, time=END, instant_us=-1),
            right=StreamSide(rows=other, time=END, instant_us=-1),
            pairs=pairs,
            rules=IntervalRules(low_us=0, high_us=0, keeps=keeps_of(self.unmatched)),
            called=names_of_right(rows, other, pairs, suffix=self.suffix, operator=_KIND),
        )

    def _on_spark(self, rows: DataFrame, other: DataFrame, pairs: Pairs) -> DataFrame:
        """Spark's own join: for bounded rows, and for types that the core does not have."""
        for frame, name in ((rows, "time"), (other, "other_time")):
            require_no_lag(frame, END, operator=_KIND, field=name)
        left, right = JoinSide(rows, "left", END), JoinSide(other, "right", END)
        joined = left.frame.join(right.frame, _condition(left, right, pairs), HOW[self.unmatched])
        columns = result_columns(
            left, right, pairs, unmatched=self.unmatched, suffix=self.suffix, operator=_KIND
        )
        return joined.select(*columns)

    def _in_windows(self, frame: DataFrame, named: str | None, field: str) -> DataFrame:
        """The rows with the end of their window, or null if they have no time."""
        from pyspark.sql import functions as F

        for name in (START, END):
            if name in frame.columns:
                raise BadOperator(
                    _KIND,
                    "other" if frame is self.other else "on",
                    f"has rows with a column {name!r}, which is also the name of a result",
                    hint=f'rename it: rows.withColumnRenamed("{name}", …)',
                )
        time = event_time_column(frame, named, operator=_KIND, field=field)
        require_watermark(frame, time, operator=_KIND, field=field)
        require_final_rows(frame, operator=_KIND, field=field)
        emitted = emitted_time(frame, time)
        # The result of a window is in the window that includes it.
        at_us = time_us(time) - (1 if emitted.is_window_end else 0)
        length = F.lit(self.length_us)
        end_us = at_us - F.pmod(at_us - F.lit(self.offset_us), length) + length
        metadata = {key: it for key, it in frame.schema[time].metadata.items() if key == WATERMARK_DELAY}
        if emitted.lag_us:
            metadata = time_metadata(frame.schema[time], EmittedTime(lag_us=emitted.lag_us))
        plain = [
            column(each.name).alias(
                each.name, metadata={key: it for key, it in each.metadata.items() if key not in _TIMES}
            )
            for each in frame.schema
        ]
        end = F.when(~has_no_time(time), F.timestamp_micros(end_us))
        return frame.select(*plain, end.alias(END, metadata=metadata))


def _condition(left: JoinSide, right: JoinSide, pairs: Pairs) -> Column:
    parts = [left[here] == right[there] for here, there in pairs]
    # In a full outer join of streams, Spark matches null with null, and it never expires a row without a window.
    # With these conditions, Spark emits such rows immediately.
    parts += [left[here].isNotNull() for here, _ in pairs] + [right[there].isNotNull() for _, there in pairs]
    return functools.reduce(operator.and_, parts)
