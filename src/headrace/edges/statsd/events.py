"""The JSON of a window: one event for each metric, and one for the listener."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.edges.event import DROPPED_HEADER, RECEIVED_HEADER, Headers
from headrace.edges.statsd.series import Series, percentiles
from headrace.edges.times import WindowTime, time_text

LISTENER = "listener"
"""The type of the event that counts what a listener has received in a window."""


class Loss(Struct, frozen=True, kw_only=True):
    """What a listener received in a window, and what it lost: in each of its events, so that no query needs a join."""

    received: int
    """packets"""
    dropped: int
    """packets that the kernel dropped, because they came faster than the listener could read"""

    @property
    def headers(self) -> Headers:
        """The same for `completeness(*)`, which reads no values."""
        return (RECEIVED_HEADER, b"%d" % self.received), (DROPPED_HEADER, b"%d" % self.dropped)


class MetricEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    type: str
    tags: dict[str, str]
    start: str
    end: str
    received: int
    dropped: int
    value: float | None = None
    """of a counter: the sum; of a gauge: the last one; of a set: how many different members"""
    rate: float | None = None
    """of a counter: per second"""
    count: float | None = None
    sum: float | None = None
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None


class ListenerEvent(Struct, frozen=True, kw_only=True):
    name: str
    type: str
    start: str
    end: str
    received: int
    dropped: int
    metrics: int
    series: int
    garbage: dict[str, int]
    """lines that were not counted, by reason"""


_encode = msgspec.json.Encoder().encode


def metric_event(series: Series, window: WindowTime, loss: Loss) -> bytes:
    event = MetricEvent(
        name=series.name,
        type=series.type,
        tags=series.tags,
        start=time_text(window.start_ms),
        end=time_text(window.end_ms),
        received=loss.received,
        dropped=loss.dropped,
    )
    match series.type:
        case "counter":
            seconds = max(window.end_ms - window.start_ms, 1) / 1000
            return _encode(replace(event, value=series.total, rate=series.total / seconds))
        case "gauge":
            return _encode(replace(event, value=series.total))
        case "set":
            return _encode(replace(event, value=float(len(series.members or ()))))
        case _:
            return _encode(_with_values(event, series))


def _with_values(event: MetricEvent, series: Series) -> MetricEvent:
    p50, p90, p95, p99 = percentiles(series.values, (50, 90, 95, 99))
    return replace(
        event,
        count=series.count,
        sum=series.total,
        min=series.least,
        max=series.most,
        mean=series.total / series.count,
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
    )


def listener_event(
    name: str, window: WindowTime, loss: Loss, *, metrics: int, series: int, garbage: dict[str, int]
) -> bytes:
    return _encode(
        ListenerEvent(
            name=name,
            type=LISTENER,
            start=time_text(window.start_ms),
            end=time_text(window.end_ms),
            received=loss.received,
            dropped=loss.dropped,
            metrics=metrics,
            series=series,
            garbage=garbage,
        )
    )
