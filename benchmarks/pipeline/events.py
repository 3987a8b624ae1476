"""The events that the pipeline's benchmark reads: clicks in JSON, some 100 bytes each."""

from __future__ import annotations

import random
from collections.abc import Iterator

from benchmarks.event_topics import Message

EVENTS_TOPIC = "events"
WARMUP_TOPIC = "warm-up"
USERS = 10_000
PAGES = 1_000
FIRST_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
EVENTS_PER_SECOND = 1_000  # in event time
SCHEMA = "user STRING, url STRING, at TIMESTAMP, ms INT"


def event(number: int, choose: random.Random) -> bytes:
    """Every event is a millisecond after the previous one; a tenth of all events is for the shop."""
    at_ms = FIRST_MS + number * 1_000 // EVENTS_PER_SECOND
    seconds, ms = divmod(at_ms - FIRST_MS, 1_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    host = "shop" if choose.random() < 0.1 else "news"
    return (
        f'{{"user":"u{choose.randrange(USERS)}","url":"https://{host}.example/{choose.randrange(PAGES)}",'
        f'"at":"2026-01-{day + 1:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z","ms":{choose.randrange(2000)}}}'
    ).encode()


def events(count: int) -> Iterator[Message]:
    """The same in every run."""
    choose = random.Random(17)
    for number in range(count):
        yield {"value": event(number, choose)}
