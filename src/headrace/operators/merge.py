"""Union of several sources, each with its own watermark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Literal

from headrace.operators.emitted_times import EmittedTime, emitted_time, with_emitted_time
from headrace.operators.operator import (
    BadOperator,
    event_time_column,
    require_kind,
    require_one_of,
    require_text,
    require_watermark,
)
from headrace.plan_names import MERGE_ALIAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Policy = Literal["min", "max"]
"""The watermark of several sources. `min`: the watermark of the slowest source, so that no source makes rows of another
one late. `max`: the watermark of the fastest source, so that results do not wait for a slow source, whose rows may then
be late."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge the rows of several sources, with a column for the name of the source.

        both = op.Merge(policy="min")({"web": web, "app": app})

    Each source has its own watermark, and the policy combines them into one. Columns that a source does not have are
    null. The event-time column must have the same name in all sources.

    The policy is a setting of Spark for the whole query, from its first batch. A Job sets it. For a stream without a
    Job, set `spark.sql.streaming.multipleWatermarkPolicy` before the start; its default is "min".

    policy   "min" (default) or "max"
    into     the column for the name of the source
    """

    policy: Policy = "min"
    into: str = "source"

    def __post_init__(self) -> None:
        require_one_of(self.policy, Policy, operator="Merge", field="policy")
        require_text(self.into, operator="Merge", field="into", hint='name a column, such as "source"')

    def __call__(self, sources: Mapping[str, DataFrame]) -> DataFrame:
        from pyspark.sql import functions as F

        hint = 'pass sources by name: {"web": web, "app": app}'
        require_kind(sources, Mapping, operator="Merge", field="sources", hint=hint)
        if not sources:
            raise BadOperator("Merge", "sources", "are empty", hint=hint)
        self._check(sources)
        named = [rows.withColumn(self.into, F.lit(name)) for name, rows in sources.items()]
        merged = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), named)
        time = event_time_column(named[0], None, operator="Merge")
        if any(emitted_time(rows, time) != EmittedTime() for rows in named):
            merged = with_emitted_time(merged, time, named[0].schema[time], self._emitted(named, time))
        return merged.alias(MERGE_ALIAS + self.policy)

    def _emitted(self, sources: Sequence[DataFrame], time: str) -> EmittedTime:
        """The event time of all sources: the longest lag."""
        emitted = [emitted_time(rows, time) for rows in sources]
        alike = {(each.is_window_end, each.panes) for each in emitted}
        if len(alike) > 1:
            raise BadOperator(
                "Merge",
                "sources",
                f"have different event times in column {time!r}: some are ends of windows, or emit several panes",
                hint="merge the sources before the windows, or rename the columns",
            )
        return max(emitted, key=lambda each: each.lag_us)

    def _check(self, sources: Mapping[str, DataFrame]) -> None:
        if len({rows.isStreaming for rows in sources.values()}) > 1:
            bounded = next(name for name, rows in sources.items() if not rows.isStreaming)
            raise BadOperator(
                "Merge",
                "sources",
                f"mix streams and bounded rows: {bounded!r} is bounded",
                hint="read all sources as streams, or all with bounded=True",
            )
        times = {}
        for name, rows in sources.items():
            if self.into in rows.columns:
                raise BadOperator(
                    "Merge",
                    "into",
                    f"is {self.into!r}, which is already a column of {name!r}",
                    hint='choose another name: into="another name"',
                )
            times[name] = event_time_column(rows, None, operator=f"Merge, source {name!r}")
            require_watermark(rows, times[name], operator=f"Merge, source {name!r}")
        if len(set(times.values())) > 1:
            listed = ", ".join(f"{name}: {time}" for name, time in times.items())
            raise BadOperator(
                "Merge",
                "sources",
                f"have different event-time columns ({listed})",
                hint="rename the columns to one name",
            )
