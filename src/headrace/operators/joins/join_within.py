"""Interval join of two streams by key and event time, based on Spark's stream-stream join.

In addition to Spark, it requires a bound on the times so that state expires, handles null keys and times, and renames
columns that clash.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from headrace.operators.joins.sides import (
    On,
    Pairs,
    names_in_result,
    read_on,
    require_frame,
    require_like_sides,
)
from headrace.operators.operator import (
    BadOperator,
    Duration,
    Operator,
    duration_us,
    event_time_column,
    interval_text,
    require_one_of,
    require_watermark,
)
from headrace.plan_names import EVENT_TIME, WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KIND = "JoinWithin"
Unmatched = Literal["left", "right", "both", None]
_HOW: Mapping[Unmatched, str] = {
    None: "inner",
    "left": "left_outer",
    "right": "right_outer",
    "both": "full_outer",
}


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
        if not self.suffix:
            raise BadOperator(_KIND, "suffix", "is empty", hint='set a suffix such as "_right"')

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
        before_us = duration_us(self.before or "0 seconds", operator=_KIND, field="before", zero=True)
        after_us = duration_us(self.after or "0 seconds", operator=_KIND, field="after", zero=True)
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
        _require_like_times(rows, other, time, other_time)
        left, right = _Side(rows, "left", time), _Side(other, "right", other_time)
        joined = left.frame.join(right.frame, self._condition(left, right), _HOW[self.unmatched])
        return joined.select(*self._result(left, right))

    def _condition(self, left: _Side, right: _Side) -> Column:
        from pyspark.sql import functions as F

        before_us, after_us = self.bounds_us
        parts = [left[here] == right[there] for here, there in self.pairs]
        parts += [
            right[right.time] >= left[left.time] - F.expr(f"interval {interval_text(before_us)}"),
            right[right.time] <= left[left.time] + F.expr(f"interval {interval_text(after_us)}"),
        ]
        # In a full outer join of streams, Spark matches null with null, and it never expires a row without a time.
        # With these conditions, Spark emits such rows immediately.
        for side, keys in ((left, [here for here, _ in self.pairs]), (right, [it for _, it in self.pairs])):
            parts += [side[name].isNotNull() for name in (*keys, side.time)]
        return functools.reduce(operator.and_, parts)

    def _result(self, left: _Side, right: _Side) -> list[Column]:
        from pyspark.sql import functions as F

        same = {here for here, there in self.pairs if here == there}
        added = [name for name in right.names if name not in same]
        called = names_in_result(left.names, added, suffix=self.suffix, operator=_KIND)
        columns = []
        for name in left.names:
            if name in same and self.unmatched in ("right", "both"):
                columns.append(F.coalesce(left[name], right[name]).alias(name))
            else:
                columns.append(left[name].alias(name))
        for name in added:
            # The result has only one event time, so that later operators can find it.
            metadata: dict[str, Any] = {"metadata": {EVENT_TIME: False}} if name == right.time else {}
            columns.append(right[name].alias(called[name], **metadata))
        return columns


class _Side:
    """One side with unique column names: both sides may be the same DataFrame."""

    def __init__(self, frame: DataFrame, which: str, time: str) -> None:
        from pyspark.sql import functions as F

        self.names = list(frame.columns)
        self.time = time
        self._called = {name: f"__{which}_{number}" for number, name in enumerate(self.names)}
        columns = []
        for name, called in self._called.items():
            metadata = dict(frame.schema[name].metadata)
            if name != time:
                # Spark accepts only one column with a watermark.
                metadata = {key: each for key, each in metadata.items() if key != WATERMARK_DELAY}
            columns.append(F.col(f"`{name}`").alias(called, metadata=metadata))
        self.frame = frame.select(*columns)

    def __getitem__(self, name: str) -> Column:
        from pyspark.sql import functions as F

        return F.col(self._called[name])


def _require_like_times(rows: DataFrame, other: DataFrame, time: str, other_time: str) -> None:
    kind, other_kind = rows.schema[time].dataType, other.schema[other_time].dataType
    if kind != other_kind:
        raise BadOperator(
            _KIND,
            "other_time",
            f"is column {other_time!r}, which is {other_kind.simpleString()}, "
            f"but {time!r} is {kind.simpleString()}",
            hint=f'cast one of them: F.col("{other_time}").cast("{kind.simpleString()}")',
        )
