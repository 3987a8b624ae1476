"""A window beside the same one a day or a week before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from headrace.operators.comparison import Compared, ComparisonLift, ComparisonStep
from headrace.operators.operator import (
    BadOperator,
    Duration,
    Operator,
    duration_us,
    names,
    require_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NEEDED = ("window_start", "window_end", "revision", "op")
"""What makes rows results of windows."""


@dataclass(frozen=True, slots=True)
class CompareWith(Operator):
    """Results of windows, each beside that of the window so long before it.

        per_hour.transform(op.CompareWith("7 days", on="url", columns="n"))

    Each of the `columns` gets two more: `n_before`, null if there was no such window, and `n_change`, the difference.
    A comparison is published when the window is, and again (with `op` = `-` for the one before) whenever one of the
    two is corrected. For windows with discarding panes it is not.

    before    how much earlier
    on        the key of the windows, which is what they have as `by`
    columns   the results to compare, numbers
    within    as long as the windows are corrected (`Correct(within=…)`); what comes later is left out and counted
    zone      a time zone such as "Europe/Berlin", in which a day before means the same time of the day
    suffix    put behind the names of the new columns, for a second comparison: "_week" makes `n_before_week`
    """

    before: Duration
    on: str | Sequence[str] = field(kw_only=True)
    columns: str | Sequence[str] = field(kw_only=True)
    within: Duration = field(default="0 seconds", kw_only=True)
    zone: str | None = field(default=None, kw_only=True)
    suffix: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        _ = self.before_us, self.within_us
        for name in ("on", "columns"):
            object.__setattr__(self, name, names(getattr(self, name), operator="CompareWith", field=name))
        if not self.columns:
            raise BadOperator(
                "CompareWith", "columns", "names nothing to compare", hint='such as columns="n"'
            )
        try:
            _ = self.zone and ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise BadOperator(
                "CompareWith",
                "zone",
                f"is {self.zone!r}, which is no time zone",
                hint='such as "Europe/Berlin"',
            ) from error

    @property
    def before_us(self) -> int:
        return duration_us(self.before, operator="CompareWith", field="before")

    @property
    def within_us(self) -> int:
        return duration_us(self.within, operator="CompareWith", field="within", zero=True)

    def before_name(self, column: str) -> str:
        return f"{column}_before{self.suffix}"

    def change_name(self, column: str) -> str:
        return f"{column}_change{self.suffix}"

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import arrow_type, hash_columns
        from headrace.operators.state.spark import run_step

        self._check(rows)
        fields = [pa.field(each.name, arrow_type(each.dataType)) for each in rows.schema.fields]
        compared = Compared(
            columns=fields,
            keys=[rows.columns.index(name) for name in self.on],
            before=[(rows.columns.index(name), self.before_name(name)) for name in self.columns],
        )
        step = ComparisonStep(compared, within_us=self.within_us)
        selected = rows.select(
            *hash_columns(rows, tuple(self.on), operator="CompareWith"),
            *(F.unix_micros(f"window_{edge}").alias(edge) for edge in ("start", "end")),
            *(self._later_us(f"window_{edge}").alias(f"later_{edge}") for edge in ("start", "end")),
            F.col("revision").cast("int").alias("revision"),
            F.coalesce(F.col("op") == "-", F.lit(False)).alias("is_gone"),
            *(F.col(f"`{name}`").alias(f"c{number}") for number, name in enumerate(rows.columns)),
        ).filter("start is not null and end is not null")
        results = run_step(
            selected,
            ComparisonLift(compared, step.input_schema),
            step,
            name="comparewith",
            kept_for=f"CompareWith({self.before_us} us, on={self.on}, zone={self.zone}, {step.state_schema.names})",
        )
        changes = {
            self.change_name(name): F.col(f"`{name}`") - F.col(f"`{self.before_name(name)}`")
            for name in self.columns
        }
        return results.withColumns(changes)

    def _check(self, rows: DataFrame) -> None:
        from pyspark.sql.types import NumericType

        missing = [name for name in NEEDED if name not in rows.columns]
        if missing:
            raise BadOperator(
                "CompareWith",
                "before",
                f"can't be found: column {missing[0]!r} is not there, so that these are no results of windows",
                hint="apply it to what a window gives, before you select columns",
            )
        require_columns(rows, self.on, operator="CompareWith", field="on")
        require_columns(rows, self.columns, operator="CompareWith", field="columns")
        for name in self.columns:
            kind = rows.schema[name].dataType
            if not isinstance(kind, NumericType):
                raise BadOperator(
                    "CompareWith",
                    "columns",
                    f"names column {name!r}, which is {kind.simpleString()} and no number",
                    hint="only numbers can be compared",
                )
            for made in (self.before_name(name), self.change_name(name)):
                if made in rows.columns:
                    raise BadOperator(
                        "CompareWith",
                        "suffix",
                        f"is {self.suffix!r}, so that there would be two columns {made!r}",
                        hint='such as suffix="_week"',
                    )

    def _later_us(self, time: str) -> Column:
        """When the window begins or ends that has this one before it."""
        from pyspark.sql import functions as F

        if self.zone is None:
            return F.unix_micros(time) + self.before_us
        local_us = F.unix_micros(F.from_utc_timestamp(time, self.zone)) + self.before_us
        return F.unix_micros(F.to_utc_timestamp(F.timestamp_micros(local_us), self.zone))
