"""The loop of incoming edges, with real datagrams in front of a real broker."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.edges.direct.carried import Carried, carried_by
from headrace.edges.direct.multicast import MulticastSink, MulticastSource
from headrace.edges.direct.numbering import streams_of
from headrace.edges.direct.packet import Packet, encode_packet
from headrace.edges.direct.receiver import Receiver
from headrace.edges.direct.recovery import Recovery
from headrace.edges.direct.resuming import resume
from headrace.edges.direct.settings import ReceiverSettings
from headrace.edges.direct.tails import read_tails
from headrace.edges.direct.tally import Tally
from headrace.edges.overload import Intake
from headrace.edges.settings import EdgeSettings, Policy
from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.committed import read_committed
from headrace.testing.ports import free_port
from tests.edges.conftest import values_in, wait_until
from tests.edges.direct.conftest import free_group, heartbeat, packet
from tests.faults.broker_process import BrokerProcess

LOOPBACK = "127.0.0.1"


class Running:
    """A receiver of a group of its own, in a thread, and the socket that sends to it."""

    def __init__(self, bootstrap: str, topic: str, **options: Any) -> None:
        group = free_group()
        self.intake = Intake(
            Cluster(bootstrap, timeout_s=30).client_config(),
            options.pop("settings", EdgeSettings()),
            name="quotes",
        )
        self.source = MulticastSource([group], LOOPBACK)
        self.sink = MulticastSink([group], LOOPBACK, ttl=1, datagram_bytes=1_400)
        self.problems: list[str] = []
        receiver_settings = ReceiverSettings(
            name="quotes",
            topic=topic,
            loss_topic=f"{topic}.loss",
            interval_ms=options.pop("interval_ms", 3_600_000),
            letters_max=options.pop("letters_max", 10),
        )
        self.receiver = Receiver(
            receiver_settings, self.intake, self.source, on_problem=self.problems.append, **options
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: self.receiver.run(self._stopping.is_set), daemon=True)
        self._thread.start()

    @property
    def tally(self) -> Tally:
        return self.receiver.tally

    def send(self, *packets: Packet | bytes) -> None:
        for each in packets:
            assert self.sink.send((each if isinstance(each, bytes) else encode_packet(each),))

    def stop(self) -> None:
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        self.intake.close()
        self.source.close()
        self.sink.close()


@contextlib.contextmanager
def running(bootstrap: str, topic: str, **options: Any) -> Iterator[Running]:
    receiver = Running(bootstrap, topic, **options)
    try:
        yield receiver
    finally:
        receiver.stop()


def carried_in(bootstrap: str, topic: str) -> list[Carried | None]:
    messages = read_committed(Cluster(bootstrap, timeout_s=30), topic)
    return [carried_by(message.headers() or ()) for message in messages]  # type: ignore[arg-type]


def losses(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(each) for each in values_in(bootstrap, f"{topic}.loss")]


def total(found: list[dict[str, Any]], name: str) -> int:
    return sum(int(each[name]) for each in found)


def test_events_arrive_in_order_each_once_and_what_is_missing_is_in_the_data(
    bootstrap: str, topic: str
) -> None:
    with running(bootstrap, topic) as feed:
        feed.send(packet(0, 3), packet(4), packet(3), packet(3), packet(8, 10), heartbeat(12))
        wait_until(lambda: feed.tally.missing == 5)
        feed.send(packet(12))
    assert values_in(bootstrap, topic) == [b"%d" % number for number in (0, 1, 2, 3, 4, 8, 9, 12)]
    # 5, 6 and 7 are missing before 8, and 10 and 11 before 12.
    found = carried_in(bootstrap, topic)
    assert [(each.number, each.first, each.missing) for each in found if each and each.missing] == [
        (8, 5, 3),
        (12, 10, 2),
    ]
    (interval,) = losses(bootstrap, topic)
    assert (interval["received"], interval["missing"], interval["duplicates"], interval["reordered"]) == (
        8,
        5,
        1,
        1,
    )
    assert (interval["type"], interval["messages"], interval["streams"]) == ("feed", 7, 1)


def test_key_headers_timestamp_and_tombstones_arrive(bootstrap: str, topic: str) -> None:
    sent = packet(0, 2)
    first = replace(
        sent.events[0], key=b"k", headers=(("own", None), ("own", b"2")), timestamp_ms=1_700_000_000_123
    )
    second = replace(sent.events[1], key=b"k", value=None)
    with running(bootstrap, topic) as feed:
        feed.send(replace(sent, events=(first, second)))
        wait_until(lambda: feed.tally.received == 2)
    one, tombstone = read_committed(Cluster(bootstrap, timeout_s=30), topic)
    assert (one.key(), one.timestamp()[1]) == (b"k", 1_700_000_000_123)
    assert [*(one.headers() or [])][:2] == [("own", None), ("own", b"2")]
    assert (tombstone.key(), tombstone.value()) == (b"k", None)


def test_garbage_is_counted_and_the_first_is_a_dead_letter(bootstrap: str, topic: str) -> None:
    good = encode_packet(packet(0))
    garbage = [b"", b"hello", good[:2] + b"\x07" + good[3:], good[:-1], b"." * 60_000]
    with running(bootstrap, topic, letters_max=4) as feed:
        feed.send(*garbage, good)
        wait_until(lambda: feed.tally.received == 1)
    assert dict(feed.tally.garbage) == {"no header": 3, "version": 1, "truncated": 1}
    letters = [*read_committed(Cluster(bootstrap, timeout_s=30), f"dlq.{topic}")]
    assert [each.value() for each in letters] == garbage[:4]
    reasons = [dict(each.headers() or [])["__dlq.errors.message"] for each in letters]
    assert reasons == [b"no header", b"no header", b"version", b"truncated"]


@pytest.fixture(scope="module")
def garbage_feed(bootstrap: str) -> Iterator[Running]:
    topic = f"garbage-{free_port()}"
    Cluster(bootstrap, timeout_s=30).create_topic(topic, partitions=1)
    with running(bootstrap, topic) as feed:
        yield feed


@given(data=st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: b"HR\x01" + rest))
def test_no_datagram_stops_a_receiver(garbage_feed: Running, data: bytes) -> None:
    before = garbage_feed.tally.messages
    garbage_feed.send(data)
    wait_until(lambda: garbage_feed.tally.messages == before + 1)


def test_two_feeds_of_the_same_events_are_merged(bootstrap: str, topic: str) -> None:
    with running(bootstrap, topic) as feed:
        # A lost 2, B lost 4.
        for each in (
            [packet(0)] * 2,
            [packet(1)] * 2,
            [packet(2)],
            [packet(3)] * 2,
            [packet(4)],
            [packet(5)] * 2,
        ):
            feed.send(*each)
        wait_until(lambda: feed.tally.received == 6)
    assert values_in(bootstrap, topic) == [b"%d" % number for number in range(6)]
    assert (feed.tally.missing, feed.tally.duplicates) == (0, 4)


def test_publisher_that_numbers_from_0_again_is_another_stream(bootstrap: str, topic: str) -> None:
    with running(bootstrap, topic) as feed:
        feed.send(packet(10**15, stream=1), packet(10**15 + 1, stream=1))
        feed.send(packet(0, stream=2), packet(1, stream=2))
        wait_until(lambda: feed.tally.received == 4)
    assert feed.tally.missing == 0


def test_plain_messages_are_events_without_numbers(bootstrap: str, topic: str) -> None:
    with running(bootstrap, topic, is_plain=True) as feed:
        feed.send(b"one", b"two", b"two")
        wait_until(lambda: feed.tally.received == 3)
    assert values_in(bootstrap, topic) == [b"one", b"two", b"two"]
    assert carried_in(bootstrap, topic) == [None] * 3


def test_plain_messages_that_the_kernel_drops_are_in_the_data(bootstrap: str, topic: str) -> None:
    """Twice as many as the kernel holds are sent before anybody reads."""
    group, sent = free_group(), 1_200
    settings = ReceiverSettings(name="quotes", topic=topic, loss_topic=f"{topic}.loss", interval_ms=3_600_000)
    with (
        contextlib.closing(MulticastSource([group], LOOPBACK)) as source,
        contextlib.closing(MulticastSink([group], LOOPBACK, ttl=1, datagram_bytes=1_400)) as sink,
        Intake(Cluster(bootstrap, timeout_s=30).client_config(), EdgeSettings(stop_s=60), name="e") as intake,
    ):
        receiver = Receiver(settings, intake, source, is_plain=True)
        for _ in range(sent):
            assert sink.send((b"." * 50_000,))
        while receiver.step(0.1):
            pass
        assert sink.send((b"last",))
        receiver.run(lambda: True)
        intake.close()
    messages = [*read_committed(Cluster(bootstrap, timeout_s=30), topic)]
    dropped = sum(int(dict(each.headers() or ()).get("edge.dropped") or b"0") for each in messages)
    assert 0 < dropped == receiver.tally.kernel
    assert len(messages) + dropped == sent + 1


# --- recovery from the log ---


class Log:
    """The topic of a publisher, and packets of what it has."""

    def __init__(self, bootstrap: str, count: int) -> None:
        self.cluster = Cluster(bootstrap, timeout_s=30)
        self.topic = f"log-{free_port()}-{time.time_ns()}"
        self.cluster.create_topic(self.topic, partitions=1)
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(count):
            producer.produce(self.topic, b"%d" % number)
        assert producer.flush(60) == 0
        (self.stream,) = streams_of(self.cluster, self.topic).values()

    def packet(self, first: int, next: int | None = None) -> Packet:
        return packet(first, next, stream=self.stream)


def test_gap_is_recovered_from_the_log_in_order(bootstrap: str, topic: str) -> None:
    log = Log(bootstrap, 20)
    with (
        contextlib.closing(Recovery(log.cluster, log.topic)) as recovery,
        running(bootstrap, topic, recovery=recovery) as feed,
    ):
        feed.send(log.packet(0, 3), log.packet(15), heartbeat(20, stream=log.stream))
        wait_until(lambda: feed.tally.recovered == 16)
    assert values_in(bootstrap, topic) == [b"%d" % number for number in range(20)]
    assert (feed.tally.missing, feed.tally.received) == (0, 4)
    assert all(each and not each.missing for each in carried_in(bootstrap, topic))


def test_what_the_log_no_longer_has_is_missing(bootstrap: str, topic: str) -> None:
    log = Log(bootstrap, 20)
    log.cluster.delete_records({Partition(log.topic, 0): 8})
    with (
        contextlib.closing(Recovery(log.cluster, log.topic)) as recovery,
        running(bootstrap, topic, recovery=recovery) as feed,
    ):
        feed.send(log.packet(0, 3), log.packet(15))
        wait_until(lambda: feed.tally.recovered == 7)
    assert values_in(bootstrap, topic) == [b"%d" % number for number in (0, 1, 2, *range(8, 16))]
    assert feed.tally.missing == 5
    missing = [(each.number, each.missing) for each in carried_in(bootstrap, topic) if each and each.missing]
    assert [count for _, count in missing] == [5]


def test_feed_goes_on_while_the_log_is_unavailable_and_the_gap_is_counted(bootstrap: str, topic: str) -> None:
    with (
        contextlib.closing(Recovery(Cluster("127.0.0.1:1", timeout_s=1), "quotes")) as recovery,
        running(bootstrap, topic, recovery=recovery) as feed,
    ):
        feed.send(packet(0), packet(3), packet(6))
        wait_until(lambda: feed.tally.received == 3)
    assert feed.tally.missing == 4
    assert any("can't be read" in each for each in feed.problems)


# --- restarts ---


def test_what_was_missed_while_no_receiver_ran_is_missing(bootstrap: str, topic: str) -> None:
    with running(bootstrap, topic) as feed:
        feed.send(packet(0), packet(1))
        wait_until(lambda: feed.tally.received == 2)
    resumed = resume(read_tails(Cluster(bootstrap, timeout_s=30), topic, records=100))
    with running(bootstrap, topic, resumed=resumed) as feed:
        # The publisher repeats 1.
        feed.send(packet(1), packet(5))
        wait_until(lambda: feed.tally.missing == 3)
    assert values_in(bootstrap, topic) == [b"0", b"1", b"5"]
    assert feed.tally.duplicates == 1


def test_what_was_missed_while_no_receiver_ran_is_recovered(bootstrap: str, topic: str) -> None:
    log = Log(bootstrap, 10)
    with running(bootstrap, topic) as feed:
        feed.send(log.packet(0, 2))
        wait_until(lambda: feed.tally.received == 2)
    resumed = resume(read_tails(Cluster(bootstrap, timeout_s=30), topic, records=100))
    with (
        contextlib.closing(Recovery(log.cluster, log.topic)) as recovery,
        running(bootstrap, topic, recovery=recovery, resumed=resumed) as feed,
    ):
        feed.send(heartbeat(10, stream=log.stream))
        wait_until(lambda: feed.tally.recovered == 8)
    assert values_in(bootstrap, topic) == [b"%d" % number for number in range(10)]


# --- overload ---

SMALL = {"memory_bytes_max": 1024 * 1024, "in_flight_bytes_max": 1024 * 1024, "stop_s": 60}


def big(number: int) -> Packet:
    sent = packet(number)
    return replace(sent, events=(replace(sent.events[0], value=b"%d " % number + b"." * 50_000),))


@pytest.mark.parametrize("policy", ["drop-newest", "drop-oldest", "block", "buffer"])
def test_no_event_is_lost_uncounted_while_the_broker_is_stalled(policy: Policy, tmp_path: Path) -> None:
    """Received and lost events together are all that were sent, for each policy."""
    settings = EdgeSettings(overload=policy, data_dir=tmp_path / "edge", **SMALL)
    broker = BrokerProcess(tmp_path / "broker", durability="os", default_partitions=1)
    with running(broker.bootstrap, "quotes", settings=settings) as feed:
        # `block`: the kernel holds up to 32 MB, and the receiver a batch; what comes after that is lost.
        sent = 1_200 if policy == "block" else 400
        for number in range(sent):
            feed.send(big(number))
            if policy != "block" and number % 50 == 0:
                wait_until(lambda number=number: feed.tally.messages > number)  # type: ignore[misc]
        with broker:
            wait_until(lambda: feed.intake.count().delivered > 0)
            wait_until(lambda: _is_settled(feed, heartbeat(sent)))
            feed.send(packet(sent))
            wait_until(lambda: feed.tally.received + feed.tally.missing == sent + 1)
            wait_until(lambda: feed.intake.count().pending == 0)
            found = [each for each in carried_in(broker.bootstrap, "quotes") if each]
            feed.stop()
    written = len(found)
    lost = sum(each.missing + each.dropped for each in found)
    assert (written + lost, found[-1].number) == (sent + 1, sent)
    assert len({each.number for each in found}) == written
    if policy == "block":
        # Probes may be dropped, too.
        assert 0 < feed.tally.missing <= feed.tally.kernel
    elif policy == "buffer":
        assert (written, lost) == (sent + 1, 0)
    else:
        assert feed.intake.count().dropped_total == lost > 0
        assert feed.tally.missing == 0


def _is_settled(feed: Running, probe: Packet) -> bool:
    feed.send(probe)
    return feed.tally.received + feed.tally.missing == probe.next
