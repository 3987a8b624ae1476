"""What the tests of edges share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest

from headrace.edges.event import Entry, Event
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed

WAIT_S = 60.0


def entry(value: bytes = b"", *, memory_bytes: int = 1) -> Entry:
    return Entry(event=Event(topic="t", value=value), memory_bytes=memory_bytes, timestamp_ms=1)


def values(entries: list[Entry]) -> list[bytes | None]:
    return [each.event.value for each in entries]


def values_in(bootstrap: str, topic: str) -> list[bytes]:
    """The values of a topic with one partition."""
    return [message.value() or b"" for message in read_committed(Cluster(bootstrap, timeout_s=30), topic)]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """A fresh topic with one partition."""
    name = f"edges-{uuid.uuid4().hex[:12]}"
    Cluster(bootstrap, timeout_s=30).create_topic(name, partitions=1)
    return name
