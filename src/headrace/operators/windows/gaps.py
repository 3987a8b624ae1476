"""Session gaps per row: an expression on the row gives its gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.operators.folds import Fold
from headrace.operators.operator import DURATION_US_MAX, BadOperator
from headrace.operators.state.ids import Hashes, ids_of
from headrace.operators.state.run import ids_column
from headrace.operators.windows.lifting import HASHES, TIME, key_columns, lift_all

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

GAP = "gap"
"""The column with the gap of a row, in microseconds."""

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


class OwnGapLift:
    """Lift rows with a column `gap` to sessions of one row, which end after the gap of the row."""

    def __init__(self, folds: Sequence[Fold], schema: pa.Schema) -> None:
        self._folds = folds
        self._schema = schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        times_us, gaps_us = np.asarray(rows.column(TIME)), np.asarray(rows.column(GAP))
        first, second = (np.asarray(rows.column(name)).view(np.uint64) for name in HASHES)
        columns = [
            ids_column(ids_of(first, second)),
            *key_columns(rows),
            pa.array(times_us),
            pa.array(times_us + gaps_us),
            pa.array(np.ones(len(times_us), dtype=np.int64)),
            *lift_all(self._folds, rows, times_us),
        ]
        return pa.table(columns, schema=self._schema), first


def require_interval(rows: DataFrame, gap: PerRow) -> None:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F
    from pyspark.sql.types import DayTimeIntervalType

    try:
        kind = rows.select(F.expr(gap.expression)).schema[0].dataType
    except AnalysisException as error:
        raise BadOperator(
            "Session",
            "gap",
            f"is {gap.expression!r}, which Spark can't evaluate",
            hint=str(error).splitlines()[0][:300],
        ) from error
    if not isinstance(kind, DayTimeIntervalType):
        raise BadOperator(
            "Session",
            "gap",
            f"is {gap.expression!r}, which is {kind.simpleString()}, not an interval of days and seconds",
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
