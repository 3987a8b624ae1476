"""How many bad rows the actions on a source have met. Spark counts them while it reads."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, Observation

from headrace.plan_names import BAD

EVENTS_TIMEOUT_MS = 10_000
"""Spark's events arrive within milliseconds; another listener may delay them."""

OBSERVATIONS_MAX = 1_000
"""Bounded sources whose counts are kept; with more of them, the oldest counts are lost."""

_observations: OrderedDict[str, Observation] = OrderedDict()


class Source(Protocol):
    """The description of a source."""

    @property
    def id(self) -> str: ...

    @property
    def bounded(self) -> bool: ...

    @property
    def bad_metric(self) -> str: ...


def counted(rows: DataFrame, source: Source, count: Column, *others: Column) -> DataFrame:
    """The rows, bad ones included. The progress of a stream has the counts; of a bounded source, `bad_count`."""
    if not source.bounded:
        return rows.observe(source.bad_metric, count, *others)
    observation = Observation(source.bad_metric)
    _observations[source.id] = observation
    while len(_observations) > OBSERVATIONS_MAX:
        _observations.popitem(last=False)
    return rows.observe(observation, count, *others)


def bad_count(source: Source) -> int | None:
    """How many bad records the first action on a bounded source has met; None if there was no action yet.

    Spark counts a record each time it computes it (a sort may do so twice), so this shows whether there are any.
    Their number is the number of their dead letters.
    """
    observation = _observations.get(source.id)
    if observation is None or observation._jo is None:
        return None
    context: Any = SparkContext._active_spark_context
    if not observation._jo.future().isCompleted():
        # The counts arrive with Spark's events, shortly after the action has returned.
        context._jsc.sc().listenerBus().waitUntilEmpty(EVENTS_TIMEOUT_MS)
    return int(observation.get[BAD]) if observation._jo.future().isCompleted() else None
