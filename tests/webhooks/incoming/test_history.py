"""What a source accepted, read from its topic: no more than is needed, and nothing of others."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from headrace.clock import SystemClock
from headrace.edges.event import Event
from headrace.kafka.cluster import Cluster
from headrace.webhooks.incoming.event_of import dead_letter_of, event_of, identity_of
from headrace.webhooks.incoming.history import Accepted, accepted_source, read_history
from headrace.webhooks.incoming.source import Source
from tests.webhooks.incoming.sending import signed, source

NOW_MS = SystemClock().now_ms()
HOUR_MS = 3_600_000


@pytest.fixture
def by(topic: str) -> Source:
    return source(topic=topic, window_s=7_200)


def write(cluster: Cluster, *events: Event, partition: int = 0) -> None:
    producer = Producer(cluster.client_config())
    for each in events:
        producer.produce(
            each.topic,
            each.value,
            partition=partition,
            headers=list(each.headers),
            timestamp=each.timestamp_ms,
        )
    assert producer.flush(60) == 0


def event(by: Source, message_id: str, at_ms: int) -> Event:
    request = signed(by, message_id=message_id)
    made = event_of(by, request, identity_of(by, request))
    return Event(topic=made.topic, value=made.value, headers=made.headers, timestamp_ms=at_ms)


def keys(by: Source, message_id: str) -> tuple[bytes, ...]:
    return identity_of(by, signed(by, message_id=message_id)).keys


def test_events_of_the_window_are_read_from_all_partitions_the_oldest_first(
    cluster: Cluster, by: Source
) -> None:
    write(cluster, event(by, "old", NOW_MS - 3 * HOUR_MS), event(by, "b", NOW_MS - 1_000))
    write(cluster, event(by, "a", NOW_MS - HOUR_MS), event(by, "c", NOW_MS), partition=1)
    assert read_history(cluster, by, NOW_MS) == [
        Accepted(NOW_MS - HOUR_MS, keys(by, "a")),
        Accepted(NOW_MS - 1_000, keys(by, "b")),
        Accepted(NOW_MS, keys(by, "c")),
    ]


def test_records_of_others_are_skipped(cluster: Cluster, by: Source) -> None:
    other = source(topic=by.topic, name="other")
    plain = Event(topic=by.topic, value=b"x", headers=(("webhook-id", b"a"),), timestamp_ms=NOW_MS)
    strange = Event(topic=by.topic, value=b"x", headers=(("webhook-source", b"\xff"),), timestamp_ms=NOW_MS)
    empty = Event(topic=by.topic, value=None, headers=(("webhook-source", None),), timestamp_ms=NOW_MS)
    write(cluster, event(other, "a", NOW_MS), plain, strange, empty)
    assert read_history(cluster, by, NOW_MS) == []


def test_only_the_newest_ids_are_kept(cluster: Cluster, topic: str) -> None:
    by = source(topic=topic, rate_per_s_max=1, tolerance_s=1, ids_max=8, window_s=7_200)
    write(cluster, *(event(by, f"{n}", NOW_MS - 20 + n) for n in range(20)))
    found = read_history(cluster, by, NOW_MS)
    assert [each.at_ms for each in found] == [NOW_MS - 20 + n for n in range(12, 20)]


def test_records_of_others_do_not_hide_ids_whose_signature_is_valid(cluster: Cluster, topic: str) -> None:
    by = source(topic=topic, rate_per_s_max=1, tolerance_s=1, ids_max=8, window_s=7_200)
    write(cluster, *(event(by, f"{n}", NOW_MS - 1_000) for n in range(5)))
    write(cluster, *(Event(topic=topic, value=b"x", timestamp_ms=NOW_MS) for _ in range(20)))
    assert len(read_history(cluster, by, NOW_MS)) == 5
    assert read_history(cluster, by, NOW_MS + 10_000) == []


def test_dead_letters_count_unless_the_sender_was_asked_to_send_again(cluster: Cluster, by: Source) -> None:
    for message_id, retry in (("a", False), ("b", True)):
        request = signed(by, message_id=message_id)
        letter = dead_letter_of(by, request, identity_of(by, request), "bad", retry=retry, now_ms=NOW_MS)
        write(
            cluster,
            Event(topic=letter.topic, value=letter.value, headers=letter.headers, timestamp_ms=NOW_MS),
        )
    assert read_history(cluster, by, NOW_MS) == [Accepted(NOW_MS, keys(by, "a"))]


def test_source_of_a_record_is_in_its_headers() -> None:
    assert accepted_source((("webhook-source", b"a"),)) == "a"
    assert accepted_source(()) == ""
