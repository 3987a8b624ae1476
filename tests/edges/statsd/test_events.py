from __future__ import annotations

import json
from array import array
from typing import Any

from headrace.edges.statsd.events import Loss, listener_event, metric_event
from headrace.edges.statsd.series import Series
from headrace.edges.times import WindowTime

TIME = WindowTime(start_ms=1_700_000_000_000, end_ms=1_700_000_010_000)
LOSS = Loss(received=90, dropped=10)
COMMON = {
    "name": "a",
    "tags": {"env": "prod"},
    "start": "2023-11-14T22:13:20.000Z",
    "end": "2023-11-14T22:13:30.000Z",
    "received": 90,
    "dropped": 10,
}


def event(type: str, **fields: Any) -> dict[str, Any]:
    series = Series(type=type, name="a", tags={"env": "prod"}, **fields)
    found: dict[str, Any] = json.loads(metric_event(series, TIME, LOSS))
    return found


def test_each_type_has_its_fields_and_the_loss_of_its_window() -> None:
    assert event("counter", total=5.0) == {**COMMON, "type": "counter", "value": 5.0, "rate": 0.5}
    assert event("gauge", total=7.0) == {**COMMON, "type": "gauge", "value": 7.0}
    assert event("set", members={b"x", b"y"}) == {**COMMON, "type": "set", "value": 2.0}
    timer = event("timer", count=4.0, total=10.0, least=1.0, most=4.0, values=array("d", [4, 1, 3, 2]))
    assert timer == {
        **COMMON,
        "type": "timer",
        "count": 4.0,
        "sum": 10.0,
        "min": 1.0,
        "max": 4.0,
        "mean": 2.5,
        "p50": 2.0,
        "p90": 4.0,
        "p95": 4.0,
        "p99": 4.0,
    }


def test_loss_is_in_headers_too_for_windows_over_the_topic() -> None:
    assert LOSS.headers == (("edge.received", b"90"), ("edge.dropped", b"10"))


def test_listener_counts_what_it_lost() -> None:
    found = json.loads(listener_event("e", TIME, LOSS, metrics=80, series=2, garbage={"no value": 3}))
    expected = {
        **COMMON,
        "name": "e",
        "type": "listener",
        "metrics": 80,
        "series": 2,
        "garbage": {"no value": 3},
    }
    del expected["tags"]
    assert found == expected
