"""Two streams joined by key, where the times of the two rows are not far apart. Spark's own join does the work.

What is added to it: what the bound must be for state to end, keys and times that are missing, and names that clash.
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
    """Each row with each row of the other side that has its key, and a time not further away than `within`.

        searches.transform(op.JoinWithin(clicks, on="session", within="1 hour", unmatched="left"))

    other        the other side; a stream if the rows are one
    on           the columns to compare: a name, several, or {name here: name there}
    within       how far apart the times may be, either way (that far apart is still within)
    before       instead: how much earlier the other side's row may be than this side's
    after        instead: how much later
    unmatched    whose rows also come, once, when none can match any more: "left" (these rows), "right" (the other
                 side's), "both", or None
    time         the column with the event time; by default the one that the source declared
    other_time   the same of the other side
    suffix       behind the name of a column of the other side that there is on both

    A column of `on` that has the same name on both sides comes once. The event time of the result is that of this side.
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
            raise BadOperator(_KIND, "suffix", "is empty", hint='such as "_right"')

    @property
    def pairs(self) -> Pairs:
        return read_on(self.on, operator=_KIND)

    @property
    def bounds_us(self) -> tuple[int, int]:
        """How much earlier and how much later the other side's row may be."""
        if self.within is not None:
            if self.before is not None or self.after is not None:
                raise BadOperator(
                    _KIND,
                    "within",
                    "was given, and before or after too",
                    hint="within is for both ways; or say before and after",
                )
            within_us = duration_us(self.within, operator=_KIND, field="within")
            return within_us, within_us
        if self.before is None and self.after is None:
            raise BadOperator(
                _KIND,
                "within",
                "was not given, so that every row would have to be kept for ever",
                hint='such as within="1 hour", or after="1 hour" if the other side always comes later',
            )
        before_us = duration_us(self.before or "0 seconds", operator=_KIND, field="before", zero=True)
        after_us = duration_us(self.after or "0 seconds", operator=_KIND, field="after", zero=True)
        if before_us == after_us == 0:
            raise BadOperator(
                _KIND,
                "after",
                "and before are nothing, so that times would have to be the same",
                hint="if that is what you want, name the time in on=, and say how late a row may be with within=",
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
        # Spark's join of streams finds a null equal to a null if both sides' unmatched rows are wanted, and keeps a
        # row without a time for ever. Said like this, it lets such rows out at once.
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
            # There is one event time, or whatever comes behind the join would not know which is meant.
            metadata: dict[str, Any] = {"metadata": {EVENT_TIME: False}} if name == right.time else {}
            columns.append(right[name].alias(called[name], **metadata))
        return columns


class _Side:
    """One side, its columns under names that nobody else has: both may be the same DataFrame."""

    def __init__(self, frame: DataFrame, which: str, time: str) -> None:
        from pyspark.sql import functions as F

        self.names = list(frame.columns)
        self.time = time
        self._called = {name: f"__{which}_{number}" for number, name in enumerate(self.names)}
        columns = []
        for name, called in self._called.items():
            metadata = dict(frame.schema[name].metadata)
            if name != time:
                # Spark wants one column with a watermark.
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
            f"and {time!r} is {kind.simpleString()}",
            hint=f'cast one of them: F.col("{other_time}").cast("{kind.simpleString()}")',
        )
