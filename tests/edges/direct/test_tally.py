from __future__ import annotations

import msgspec

from headrace.edges.direct.tally import Tally, interval_event
from headrace.edges.times import WindowTime


def test_event_of_an_interval_has_the_counts_since_its_start() -> None:
    tally = Tally(messages=10, received=20, missing=1)
    tally.garbage["version"] = 2
    before = tally.copy()
    tally.messages, tally.received, tally.missing, tally.kernel = 15, 40, 4, 3
    tally.garbage["version"] += 1
    tally.dropped["newest"] += 5
    time = WindowTime(start_ms=1_700_000_000_000, end_ms=1_700_000_010_000)
    found = msgspec.json.decode(interval_event("quotes", time, before, tally, streams=2))
    assert found == {
        "name": "quotes",
        "type": "feed",
        "start": "2023-11-14T22:13:20.000Z",
        "end": "2023-11-14T22:13:30.000Z",
        "streams": 2,
        "messages": 5,
        "received": 20,
        "missing": 3,
        "recovered": 0,
        "duplicates": 0,
        "late": 0,
        "reordered": 0,
        "kernel": 3,
        "garbage": {"version": 1},
        "dropped": {"newest": 5},
    }
