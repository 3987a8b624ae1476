"""How long after they happened events are processed (event-time skew): percentiles of every batch of a job.

Spark computes them with the count of bad records while it reads, and reports them with its progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from headrace.plan_names import SKEW

if TYPE_CHECKING:
    from pyspark.sql import Column

SHARES = (0.5, 0.95, 0.99)

ACCURACY = 200
"""A rank is off by one in 200 of the batch at most; more would cost more for every record."""

ONE_OUT_OF = 8
"""Records of a partition of which one is looked at. That costs some 55 ns of CPU time a record, of the 7 µs or so that
a job with a window takes for one; looking at all of them would cost 200 ns."""


class Skew(Struct, frozen=True, kw_only=True):
    """Processing time minus event time, of the last batch that had any. Negative where clocks are ahead."""

    ms_p50: int
    ms_p95: int
    ms_p99: int


def skew_column(event_time: Column, offset: Column) -> Column:
    from pyspark.sql import functions as F

    age_ms = F.unix_millis(F.current_timestamp()) - F.unix_millis(event_time)
    return skew_of_ages(F.when(offset % ONE_OUT_OF == 0, age_ms))


def skew_of_ages(sampled_ms: Column) -> Column:
    from pyspark.sql import functions as F

    return F.percentile_approx(sampled_ms, list(SHARES), ACCURACY).alias(SKEW)


def skew_of(progress: Mapping[str, Any]) -> Skew | None:
    """Of several sources, the worst."""
    observed = [
        each for each in (progress.get("observedMetrics") or {}).values() if isinstance(each, Mapping)
    ]
    found = [each[SKEW] for each in observed if each.get(SKEW)]
    if not found:
        return None
    p50, p95, p99 = (max(int(each[number]) for each in found) for number in range(len(SHARES)))
    return Skew(ms_p50=p50, ms_p95=p95, ms_p99=p99)
