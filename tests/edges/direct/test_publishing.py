from __future__ import annotations

from confluent_kafka import Producer

from headrace.edges.direct.publishing import numbered_event, plain_event, plain_frames
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed


def test_number_of_a_record_is_its_offset_and_nothing_of_it_is_lost(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"1", headers=[("own", b"h"), ("feed.number", b"9")], timestamp=1_700_000_000_000)
    producer.produce(topic, None, key=b"k", timestamp=1_700_000_000_001)
    assert producer.flush(60) == 0
    first, second = read_committed(Cluster(bootstrap, timeout_s=30), topic)

    event = numbered_event(first)
    assert (event.number, event.timestamp_ms, event.key, event.value) == (0, 1_700_000_000_000, None, b"1")
    # Numbers of a feed that it was received from are of that feed.
    assert event.headers == (("own", b"h"),)
    tombstone = numbered_event(second)
    assert (tombstone.number, tombstone.key, tombstone.value) == (1, b"k", None)
    assert (plain_frames(first), plain_frames(second)) == ((b"1",), (b"k", b""))


def test_frames_of_a_plain_message_are_key_headers_and_value() -> None:
    one = plain_event("t", (b"value",))
    assert (one.key, one.value, one.headers) == (None, b"value", ())
    assert plain_event("t", (b"value",), dropped=3).headers == (("edge.dropped", b"3"),)
    more = plain_event("t", (b"key", b"C", b"", b"value"))
    assert (more.key, more.value, more.headers) == (b"key", b"value", (("frame.1", b"C"), ("frame.2", b"")))
