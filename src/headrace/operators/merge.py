"""Several sources as one, each with a watermark of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Literal

from headrace.operators.operator import BadOperator, event_time_column, require_one_of, require_watermark
from headrace.plan_names import MERGE_ALIAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Policy = Literal["min", "max"]
"""Which watermark several sources have. `min`: that of the slowest, so that no source makes another one late. `max`:
that of the fastest, so that results do not wait for a slow source, whose rows may then be late."""


@dataclass(frozen=True, slots=True)
class Merge:
    """The rows of several sources, with a column that says which one a row came from.

        both = op.Merge(policy="min")({"web": web, "app": app})

    Each source keeps its own watermark, which says how far *that* source is trusted; the policy makes one of them.
    Where sources have different columns, the others are null. The event-time column has the same name in all.

    The policy is a setting of Spark's, for a whole query from its first batch on. A Job sets it. For a plain stream,
    set `spark.sql.streaming.multipleWatermarkPolicy` before it starts; without that it is "min".

    policy   "min" (default) or "max"
    into     the name of the column with the source's name
    """

    policy: Policy = "min"
    into: str = "source"

    def __post_init__(self) -> None:
        require_one_of(self.policy, Policy, operator="Merge", field="policy")
        if not self.into:
            raise BadOperator("Merge", "into", "is empty", hint='the name of a column, such as "source"')

    def __call__(self, sources: Mapping[str, DataFrame]) -> DataFrame:
        from pyspark.sql import functions as F

        if not sources:
            raise BadOperator("Merge", "sources", "are none", hint='{"web": web, "app": app}')
        self._check(sources)
        named = [rows.withColumn(self.into, F.lit(name)) for name, rows in sources.items()]
        merged = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), named)
        return merged.alias(MERGE_ALIAS + self.policy)

    def _check(self, sources: Mapping[str, DataFrame]) -> None:
        if len({rows.isStreaming for rows in sources.values()}) > 1:
            bounded = next(name for name, rows in sources.items() if not rows.isStreaming)
            raise BadOperator(
                "Merge",
                "sources",
                f"are streams and bounded rows together: {bounded!r} is bounded",
                hint="read all of them the same way",
            )
        times = {}
        for name, rows in sources.items():
            if self.into in rows.columns:
                raise BadOperator(
                    "Merge",
                    "into",
                    f"is {self.into!r}, which {name!r} has already",
                    hint='into="another name"',
                )
            times[name] = event_time_column(rows, None, operator=f"Merge, source {name!r}")
            require_watermark(rows, times[name], operator=f"Merge, source {name!r}")
        if len(set(times.values())) > 1:
            said = ", ".join(f"{name}: {time}" for name, time in times.items())
            raise BadOperator(
                "Merge", "sources", f"have their event times in different columns ({said})", hint="rename one"
            )
