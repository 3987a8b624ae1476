"""Comparison of windows with the same window a day or a week earlier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.operators.comparison import Compared, ComparisonLift, ComparisonStep
from headrace.operators.emitted_times import emitted_time
from headrace.operators.operator import (
    BadOperator,
    Duration,
    Operator,
    duration_us,
    names,
    require_columns,
    require_kind,
)
from headrace.operators.windows.zones import require_zone

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NEEDED = ("window_start", "window_end", "revision", "op")
"""The columns that results of windows must have."""


@dataclass(frozen=True, slots=True)
class CompareWith(Operator):
    """Compare the result of each window with the result of an earlier window.

        per_hour.transform(op.CompareWith("7 days", on="url", columns="n"))

    Each of the `columns` gets two new columns: `n_before`, null without an earlier window, and `n_change`, the
    difference. A comparison is emitted when the window is emitted, and again whenever one of the two results is
    corrected; the previous comparison is retracted (`op` is `-`). Windows with discarding panes are not supported.

    before    how much earlier the other window is
    on        the key of the windows, the same as their `by`
    columns   the numeric results to compare
    within    the allowed lateness of the windows (`Correct(within=…)`); later corrections are dropped and counted
    zone      a time zone such as "Europe/Berlin", in which a day earlier means the same time of day
    suffix    appended to the names of the new columns, for a second comparison: "_week" names `n_before_week`
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
            raise BadOperator("CompareWith", "columns", "is empty", hint='name a result, such as columns="n"')
        require_kind(
            self.suffix, str, operator="CompareWith", field="suffix", hint='set a text such as "_week"'
        )
        if self.zone is not None:
            require_zone(self.zone, operator="CompareWith")

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
            F.coalesce(F.col("op") == "-", F.lit(False)).alias("is_retraction"),
            *(F.col(f"`{name}`").alias(f"c{number}") for number, name in enumerate(rows.columns)),
        ).filter("start is not null and end is not null")
        results = run_step(
            selected,
            ComparisonLift(compared, step.input_schema),
            step,
            name="comparewith",
            kept_for=f"CompareWith({self.before_us} us, on={self.on}, zone={self.zone}, {step.state_schema.names})",
            lag_us=emitted_time(rows, "window_end").lag_us,
        )
        # The metadata of the columns, such as the watermark, is still valid.
        results = results.select(
            *(F.col(f"`{each.name}`").alias(each.name, metadata=each.metadata) for each in rows.schema),
            *(F.col(f"`{self.before_name(name)}`") for name in self.columns),
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
                f"needs results of windows, but column {missing[0]!r} is missing",
                hint="apply CompareWith to the results of a window, before you select columns",
            )
        require_columns(rows, self.on, operator="CompareWith", field="on")
        require_columns(rows, self.columns, operator="CompareWith", field="columns")
        for name in self.columns:
            kind = rows.schema[name].dataType
            if not isinstance(kind, NumericType):
                raise BadOperator(
                    "CompareWith",
                    "columns",
                    f"names column {name!r}, which is {kind.simpleString()}, not a number",
                    hint="name numeric columns",
                )
            for added in (self.before_name(name), self.change_name(name)):
                if added in rows.columns:
                    raise BadOperator(
                        "CompareWith",
                        "suffix",
                        f"is {self.suffix!r}, which would create two columns {added!r}",
                        hint='choose another suffix, such as suffix="_week"',
                    )

    def _later_us(self, time: str) -> Column:
        """The start or the end of the later window that is compared with this one."""
        from pyspark.sql import functions as F

        if self.zone is None:
            return F.unix_micros(time) + self.before_us
        local_us = F.unix_micros(F.from_utc_timestamp(time, self.zone)) + self.before_us
        return F.unix_micros(F.to_utc_timestamp(F.timestamp_micros(local_us), self.zone))
