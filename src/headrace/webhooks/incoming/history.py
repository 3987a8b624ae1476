"""What a source accepted before a restart: read from the headers of its topic, and of its dead letters.

The topic has every event that was accepted, whoever wrote it; so no further store has to agree with it.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import cast

from confluent_kafka import Message
from msgspec import Struct

from headrace.dead_letters import TRUNCATED_HEADER, dead_letter_topic
from headrace.edges.event import Event, Headers
from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.committed import read_committed
from headrace.webhooks.incoming.event_of import (
    ID_HEADER,
    RETRY_HEADER,
    SOURCE_HEADER,
    keys_of_record,
)
from headrace.webhooks.incoming.source import Kind, Source

READ_S = 10.0
"""How long the broker may be silent."""


class Accepted(Struct, frozen=True, order=True):
    """The keys of a request, and when it was accepted."""

    at_ms: int
    keys: tuple[bytes, ...]


def read_history(cluster: Cluster, source: Source, now_ms: int) -> list[Accepted]:
    """The requests of the window that became events or dead letters, the oldest first; the newest `ids_max`."""
    existing = cluster.topics()
    topics = [each for each in (source.topic, dead_letter_topic(source.topic)) if each in existing]
    found = itertools.chain.from_iterable(
        _accepted_in(cluster, topic, _starts(cluster, existing[topic], source, now_ms), source)
        for topic in topics
    )
    return heapq.nlargest(source.ids_max, found)[::-1]


def _starts(
    cluster: Cluster, partitions: Sequence[Partition], source: Source, now_ms: int
) -> dict[Partition, int]:
    """The first offset of the window. Of a longer one only the newest records, in which others may have written, too;
    but always all of two tolerances."""
    window = cluster.at_time(partitions, now_ms - source.replay_window_ms)
    needed = cluster.at_time(partitions, now_ms - 2_000 * source.tolerance_s)
    ends = cluster.latest(partitions)
    return {each: max(window[each], min(needed[each], ends[each] - source.ids_max)) for each in partitions}


def _accepted_in(
    cluster: Cluster, topic: str, starts: dict[Partition, int], source: Source
) -> Iterator[Accepted]:
    # Records behind an open transaction of another writer count, too.
    messages = read_committed(cluster, topic, starts=starts, isolation="read_uncommitted", timeout_s=READ_S)
    for message in messages:
        headers = _headers(message)
        if accepted_source(headers) == source.name:
            yield Accepted(message.timestamp()[1], accepted_keys(source.kind, headers, message.value()))


def _headers(message: Message) -> Headers:
    found = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return tuple(found)


def accepted_source(headers: Headers) -> str:
    """The source of a record that is an accepted request; empty if it is none."""
    found = dict(headers)
    return "" if RETRY_HEADER in found else (found.get(SOURCE_HEADER) or b"").decode(errors="replace")


def accepted_keys(kind: Kind, headers: Headers, value: bytes | None) -> tuple[bytes, ...]:
    """Those of the request that became the record."""
    found = dict(headers)
    message_id = (found.get(ID_HEADER) or b"").decode(errors="replace")
    return keys_of_record(kind, message_id, None if TRUNCATED_HEADER in found else value)


def keys_of_any_kind(event: Event) -> tuple[bytes, ...]:
    """As long as the definition of its source is not known: those of the kind with the most."""
    return accepted_keys("github", event.headers, event.value)
