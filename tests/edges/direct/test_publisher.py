"""The loop of outgoing edges: a real topic, real datagrams."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Producer

from headrace.edges.direct.multicast import MulticastSink, MulticastSource
from headrace.edges.direct.numbering import streams_of
from headrace.edges.direct.packet import Packet, decode_packet
from headrace.edges.direct.publisher import Publisher
from headrace.edges.direct.settings import PublisherSettings
from headrace.kafka.cluster import Cluster, Partition
from tests.edges.conftest import wait_until
from tests.edges.direct.conftest import free_group, numbers, write_in_transactions

LOOPBACK = "127.0.0.1"


class Running:
    """A publisher in a thread, and a socket that receives what it sends."""

    def __init__(self, bootstrap: str, topic: str, **options: Any) -> None:
        group = free_group()
        self.source = MulticastSource([group], LOOPBACK)
        self.messages: list[bytes] = []
        settings = PublisherSettings(
            topic=topic,
            group=f"{topic}-out",
            from_beginning=options.pop("from_beginning", True),
            heartbeat_ms=options.pop("heartbeat_ms", 50),
            commit_ms=options.pop("commit_ms", 50),
        )
        self.problems: list[str] = []
        self.publisher = Publisher(
            settings,
            Cluster(bootstrap, timeout_s=30),
            MulticastSink([group], LOOPBACK, ttl=1, datagram_bytes=1_400),
            on_problem=self.problems.append,
            **options,
        )
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: self.publisher.run(self._stopping.is_set, self._ready.set), daemon=True
        )
        self._thread.start()
        assert self._ready.wait(60)

    def receive(self) -> list[Packet]:
        """All packets so far."""
        while found := self.source.receive(0.01):
            self.messages += [frames[-1] for frames in found]
        return [decode_packet(each) for each in self.messages]

    def events(self) -> list[int]:
        return [number for each in self.receive() for number in numbers(each.events)]

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        self.publisher.close()
        self.source.close()


@contextlib.contextmanager
def running(bootstrap: str, topic: str, **options: Any) -> Iterator[Running]:
    publisher = Running(bootstrap, topic, **options)
    try:
        yield publisher
    finally:
        publisher.stop()


def write(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def some(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_records_are_sent_in_order_with_their_offsets_several_in_a_datagram(
    bootstrap: str, topic: str
) -> None:
    write(bootstrap, topic, some(500))
    with running(bootstrap, topic) as out:
        wait_until(lambda: len(out.events()) >= 500)
        packets = [each for each in out.receive() if each.events]
    assert [number for each in packets for number in numbers(each.events)] == [*range(500)]
    assert [each.value for sent in packets for each in sent.events] == some(500)
    assert 500 * 22 / 1_400 < len(packets) < 100
    assert all(len(each) <= 1_400 for each in out.messages)
    (stream,) = streams_of(Cluster(bootstrap, timeout_s=30), topic).values()
    assert {each.stream for each in packets} == {stream}
    # Each packet begins where the last one ended.
    assert [each.first for each in packets] == [0, *(each.next for each in packets[:-1])]


def test_idle_publisher_sends_its_next_number(bootstrap: str, topic: str) -> None:
    write(bootstrap, topic, some(3))
    with running(bootstrap, topic) as out:
        wait_until(lambda: [each for each in out.receive() if each.first == each.next == 3] != [])


def test_publisher_continues_after_what_it_has_sent(bootstrap: str, topic: str) -> None:
    write(bootstrap, topic, some(3))
    with running(bootstrap, topic) as out:
        wait_until(lambda: len(out.events()) == 3)
    write(bootstrap, topic, some(2))
    with running(bootstrap, topic) as out:
        wait_until(lambda: out.events() == [3, 4])
        assert out.receive()[0].first == 3


def test_publisher_that_has_sent_nothing_continues_from_its_first_start(bootstrap: str, topic: str) -> None:
    write(bootstrap, topic, some(3))
    with running(bootstrap, topic, from_beginning=False):
        pass
    write(bootstrap, topic, some(2))
    with running(bootstrap, topic, from_beginning=False) as out:
        wait_until(lambda: out.events() == [3, 4])


def test_numbers_without_a_record_are_accounted_for(bootstrap: str, topic: str) -> None:
    write_in_transactions(bootstrap, topic)
    with running(bootstrap, topic) as out:
        wait_until(lambda: out.events() == [0, 4])
        packets = [each for each in out.receive() if each.events]
    assert packets[0].first == 0
    assert [each.first for each in packets[1:]] == [each.next for each in packets[:-1]]


def test_event_that_fits_into_no_datagram_is_a_gap_and_counted(bootstrap: str, topic: str) -> None:
    write(bootstrap, topic, [b"0", b"." * 70_000, b"2"])
    with running(bootstrap, topic) as out:
        wait_until(lambda: out.events() == [0, 2])
        spans = [(each.first, each.next) for each in out.receive() if each.events]
    assert spans == [(0, 1), (2, 3)]
    assert (out.publisher.published.events, out.publisher.published.too_large) == (2, 1)


def test_records_that_were_deleted_before_they_were_sent_are_a_gap_and_counted(
    bootstrap: str, topic: str
) -> None:
    write(bootstrap, topic, some(2))
    with running(bootstrap, topic) as out:
        wait_until(lambda: out.events() == [0, 1])
    write(bootstrap, topic, some(5))
    Cluster(bootstrap, timeout_s=30).delete_records({Partition(topic, 0): 5})
    with running(bootstrap, topic) as out:
        wait_until(lambda: out.events() == [5, 6])
        assert min(each.first for each in out.receive()) == 5
    assert out.publisher.published.deleted == 3
    assert "deleted before they were sent" in out.problems[0]


def test_topic_that_was_created_again_is_another_stream_from_0(bootstrap: str, topic: str) -> None:
    write(bootstrap, topic, some(5))
    with running(bootstrap, topic) as out:
        wait_until(lambda: len(out.events()) == 5)
        before = {each.stream for each in out.receive()}
    cluster = Cluster(bootstrap, timeout_s=30)
    cluster.delete_topics([topic])
    wait_until(lambda: topic not in cluster.topics())
    cluster.create_topic(topic, partitions=1)
    write(bootstrap, topic, some(2))
    with running(bootstrap, topic) as out:
        wait_until(lambda: out.events() == [0, 1])
        assert before.isdisjoint({each.stream for each in out.receive()})


def test_two_publishers_of_a_group_share_the_partitions(bootstrap: str, topic: str) -> None:
    cluster = Cluster(bootstrap, timeout_s=30)
    cluster.add_partitions(topic, 2)
    with running(bootstrap, topic) as first, running(bootstrap, topic) as second:
        wait_until(lambda: first.publisher.partitions == second.publisher.partitions == 1)
        streams = [{each.stream for each in out.receive()[-5:]} for out in (first, second)]
        wait_until(lambda: first.publisher.published.heartbeats > 3)
    assert streams[0] | streams[1] <= {*streams_of(cluster, topic).values()}


def test_plain_publisher_sends_values_and_no_heartbeats(bootstrap: str, topic: str) -> None:
    write(bootstrap, topic, some(3))
    with running(bootstrap, topic, is_plain=True) as out:

        def has_all() -> bool:
            out.messages += [frames[-1] for frames in out.source.receive(0.01)]
            return len(out.messages) >= 3

        wait_until(has_all)
    assert out.messages == some(3)
    assert out.publisher.published.heartbeats == 0


def test_records_that_are_deleted_under_a_running_publisher_are_a_gap_and_counted(
    bootstrap: str, topic: str
) -> None:
    write(bootstrap, topic, some(2))
    with running(bootstrap, topic) as out:
        wait_until(lambda: out.events() == [0, 1])
        # An open transaction: the publisher waits at 2, while the log has more.
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
        producer.init_transactions()
        producer.begin_transaction()
        for value in some(3):
            producer.produce(topic, value)
        assert producer.flush(60) == 0
        Cluster(bootstrap, timeout_s=30).delete_records({Partition(topic, 0): 4})
        wait_until(lambda: out.publisher.published.deleted == 2)
        producer.commit_transaction()
        wait_until(lambda: out.events() == [0, 1, 4])
        assert [each.first for each in out.receive() if each.events][-1] == 4
