"""Session gaps per row: an expression on the row gives its gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.operators.operator import DURATION_US_MAX, BadOperator

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOUCH_US = 1
"""Spark merges two sessions if one ends exactly when the other starts; Headrace starts a new session. So the gap that
Spark gets is shorter by this amount, and a gap must be longer than it."""


@dataclass(frozen=True, slots=True)
class PerRow:
    """A gap per row: any Spark expression on the row that returns an interval.

        op.Session(gap=op.PerRow("CASE WHEN device = 'tv' THEN INTERVAL 2 HOURS ELSE INTERVAL 10 MINUTES END"), ...)

    expression   such as `timeout` (a column of intervals), or `seconds * INTERVAL 1 SECOND`

    Rows whose gap is null, zero, negative or longer than a hundred years are skipped and counted.
    """

    expression: str

    def __post_init__(self) -> None:
        text: object = self.expression
        if not isinstance(text, str) or not text.strip():
            raise BadOperator(
                "PerRow",
                "expression",
                f"is {self.expression!r}",
                hint='set an expression such as "minutes * INTERVAL 1 MINUTE"',
            )


def require_interval(rows: DataFrame, gap: PerRow) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.types import DayTimeIntervalType

    from headrace.operators.state.keys import evaluated_type

    problem = f"is {gap.expression!r}"
    kind = evaluated_type(rows, F.expr(gap.expression), operator="Session", field="gap", problem=problem)
    if not isinstance(kind, DayTimeIntervalType):
        raise BadOperator(
            "Session",
            "gap",
            f"{problem}, which is {kind.simpleString()}, not an interval of days and seconds",
            hint='set an expression such as "seconds * INTERVAL 1 SECOND" or "INTERVAL 10 MINUTES"',
        )


def gap_us(gap: PerRow) -> Column:
    """The gap in microseconds. Spark has no function for the length of an interval, so this adds up its parts."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DayTimeIntervalType

    interval = F.expr(gap.expression).cast(DayTimeIntervalType())
    days, hours, minutes, seconds = (
        F.date_part(F.lit(part), interval) for part in ("DAY", "HOUR", "MINUTE", "SECOND")
    )
    whole_minutes = (days.cast("long") * 24 + hours) * 60 + minutes
    return whole_minutes * 60_000_000 + (seconds * 1_000_000).cast("long")


def has_no_gap(gap: PerRow) -> Column:
    us = gap_us(gap)
    return us.isNull() | (us <= TOUCH_US) | (us > DURATION_US_MAX)


def spark_interval(gap: PerRow) -> Column:
    """The gap for Spark's `session_window`."""
    from pyspark.sql import functions as F

    seconds = ((gap_us(gap) - TOUCH_US).cast("decimal(20,0)") / F.lit(1_000_000).cast("decimal(7,0)")).cast(
        "decimal(18,6)"
    )
    zero = F.lit(0)
    return F.make_interval(zero, zero, zero, zero, zero, zero, seconds)
