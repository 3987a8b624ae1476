"""The input of the operators' benchmark: clicks, searches with the clicked results, and versions of profiles.

JSON of some 100 bytes. Every event is a millisecond after the previous one, and all topics start at the same time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from benchmarks.event_topics import Message

FIRST_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
EVENTS_PER_SECOND = 1_000  # in event time
USERS = 10_000
DEVICES = 200_000
SESSIONS_AT_ONCE = 50_000
EVENTS_PER_SESSION = 4

CLICKS = "clicks"
CLICKS_SCHEMA = "user STRING, device STRING, at TIMESTAMP, ms INT"

SEARCHES = "searches"
SEARCHES_SCHEMA = "session STRING, at TIMESTAMP, query STRING"
RESULTS = "results"
RESULTS_SCHEMA = "session STRING, clicked_at TIMESTAMP, url STRING"

PROFILES = "profiles"
PROFILES_SCHEMA = "user STRING, changed_at TIMESTAMP, country STRING"


def clicks(count: int) -> Iterator[Message]:
    """Clicks of 10,000 users on 200,000 devices."""
    choose = random.Random(17)
    for number in range(count):
        yield _message(
            f'{{"user":"u{choose.randrange(USERS)}","device":"device-{choose.randrange(DEVICES)}",'
            f'"at":"{_time(number)}","ms":{choose.randrange(2000)}}}'
        )


def searches(count: int) -> Iterator[Message]:
    choose = random.Random(18)
    for number in range(count):
        yield _message(
            f'{{"session":"{_session(number, choose)}","at":"{_time(number)}","query":"q{choose.randrange(1000)}"}}'
        )


def results(count: int) -> Iterator[Message]:
    """Clicked results, in the same sessions: 50,000 sessions at a time, each for some minutes."""
    choose = random.Random(19)
    for number in range(count):
        yield _message(
            f'{{"session":"{_session(number, choose)}","clicked_at":"{_time(number)}",'
            f'"url":"https://news.example/{choose.randrange(1000)}"}}'
        )


def profiles(count: int, *, span: int) -> Iterator[Message]:
    """Versions of the profiles of users, with the user as the key, spread over the time of `span` events.

    Each user has one at the start.
    """
    choose = random.Random(20)
    for number in range(count):
        user = number if number < USERS else choose.randrange(USERS)
        at = 0 if number < USERS else (number - USERS) * span // max(count - USERS, 1)
        value = f'{{"user":"u{user}","changed_at":"{_time(at)}","country":"c{choose.randrange(200)}"}}'
        yield {"key": f"u{user}".encode(), "value": value.encode()}


def _session(number: int, choose: random.Random) -> str:
    return f"s{number // EVENTS_PER_SESSION + choose.randrange(SESSIONS_AT_ONCE)}"


def _message(value: str) -> Message:
    return {"value": value.encode()}


def _time(number: int) -> str:
    seconds, ms = divmod(number * 1_000 // EVENTS_PER_SECOND, 1_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"2026-01-{day + 1:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"
