"""The listener in front of a broker; tests/cli/edge/test_statsd.py has the command."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.edges.overload import Intake
from headrace.edges.settings import EdgeSettings
from headrace.edges.statsd.listener import StatsdListener
from headrace.edges.statsd.settings import BOUNDS, StatsdSettings
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from headrace.pipeline import read_topic
from headrace.testing.manual_clock import ManualClock
from tests.edges.conftest import values_in, wait_until
from tests.faults.broker_process import BrokerProcess

FLUSH_MS = 1000


def bound(kind: socket.SocketKind) -> socket.socket:
    found = socket.socket(socket.AF_INET, kind)
    found.bind(("127.0.0.1", 0))
    return found


class Sender:
    """Sends datagrams and lines to a listener."""

    def __init__(self, udp: tuple[str, int], tcp: tuple[str, int]) -> None:
        self._udp = udp
        self._tcp = tcp

    def datagram(self, *packets: bytes) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for packet in packets:
                sender.sendto(packet, self._udp)

    def lines(self, text: bytes) -> None:
        with socket.create_connection(self._tcp) as sender:
            sender.sendall(text)


@contextlib.contextmanager
def listening(
    intake: Intake, topic: str, clock: ManualClock, **options: Any
) -> Iterator[tuple[Sender, StatsdListener]]:
    """A listener in a thread. It stops at the end, and its last window is written."""
    udp, tcp = bound(socket.SOCK_DGRAM), bound(socket.SOCK_STREAM)
    sender = Sender(udp.getsockname(), tcp.getsockname())
    settings = StatsdSettings(name="edge", topic=topic, flush_ms=FLUSH_MS, **options)
    listener = StatsdListener(settings, intake, udp, tcp, clock=clock)
    stop = threading.Event()
    thread = threading.Thread(target=listener.run, args=(stop.is_set,))
    thread.start()
    try:
        yield sender, listener
    finally:
        stop.set()
        thread.join()
        listener.close()


@pytest.fixture
def intake(bootstrap: str) -> Iterator[Intake]:
    with Intake({"bootstrap.servers": bootstrap}, EdgeSettings(stop_s=60), name="edge") as found:
        yield found


def events_in(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(value) for value in values_in(bootstrap, topic)]


def test_windows_are_aligned_and_have_what_arrived_in_them(
    intake: Intake, bootstrap: str, topic: str
) -> None:
    clock = ManualClock(now_ms=1_700_000_000_400)
    with listening(intake, topic, clock) as (sender, listener):
        sender.datagram(b"a:1|c", b"a:2|c\nb:3|g")
        sender.lines(b"a:4|c\n")
        wait_until(lambda: listener._window.metrics == 4)
        clock.advance_ms(700)
        wait_until(lambda: intake.count().received == 3)
        sender.datagram(b"a:10|c")
        wait_until(lambda: listener._window.metrics == 1)
    intake.close()

    first, second = [
        [each for each in events_in(bootstrap, topic) if each["start"].endswith(start)]
        for start in ("20.400Z", "21.000Z")
    ]
    assert {each["name"]: each.get("value") for each in first} == {"a": 7, "b": 3, "edge": None}
    assert {(each["end"][-7:], each["received"], each["dropped"]) for each in first} == {("21.000Z", 3, 0)}
    assert {each["name"]: each.get("value") for each in second} == {"a": 10, "edge": None}
    assert {each["end"][-7:] for each in second} == {"21.100Z"}


def test_garbage_is_counted_and_the_first_lines_are_dead_letters(
    intake: Intake, bootstrap: str, topic: str
) -> None:
    Cluster(bootstrap, timeout_s=30).create_topic(f"dlq.{topic}", partitions=1)
    with listening(intake, topic, ManualClock(), letters_max=2, letter_bytes_max=3) as (sender, listener):
        sender.datagram(b"garbage", b"b:x|c", b"c:1|what", b"a:1|c")
        sender.lines(b"x" * 20_000 + b"\n")
        wait_until(
            lambda: (
                listener._window_received == 4
                and listener._connections is not None
                and listener._connections.too_long == 1
            )
        )
    intake.close()

    counts = {"no value": 1, "value is not a number": 1, "unknown type": 1, "line is too long": 1}
    assert listener.garbage == counts
    assert listener.lost() == {"kernel": 0, "connections": 0, **counts}
    assert (
        next(each for each in events_in(bootstrap, topic) if each["type"] == "listener")["garbage"] == counts
    )
    letters = [*read_committed(Cluster(bootstrap, timeout_s=30), f"dlq.{topic}")]
    assert [each.value() for each in letters] == [b"gar", b"b:x"]
    headers = dict(letters[0].headers() or [])
    assert headers["__dlq.errors.message"] == b"no value"
    assert headers["__dlq.errors.truncated.from.bytes"] == b"7"


def test_datagrams_that_the_kernel_drops_are_in_the_events_of_the_window(
    intake: Intake, bootstrap: str, topic: str
) -> None:
    udp, clock = bound(socket.SOCK_DGRAM), ManualClock()
    settings = StatsdSettings(name="edge", topic=topic, flush_ms=FLUSH_MS, receive_buffer_bytes=4096)
    listener = StatsdListener(settings, intake, udp, clock=clock)
    Sender(udp.getsockname(), ("", 0)).datagram(*[b"a:1|c"] * 500)  # nobody reads yet
    listener.run(lambda: True)
    listener.close()
    intake.close()

    counter, own = events_in(bootstrap, topic)
    assert 0 < counter["value"] < 500
    assert counter["value"] == counter["received"] == own["received"]
    assert counter["received"] + counter["dropped"] == 500
    assert (listener.received, listener.dropped) == (counter["received"], counter["dropped"])


def test_windows_over_the_topic_show_what_the_kernel_dropped(
    intake: Intake, bootstrap: str, topic: str, spark: SparkSession
) -> None:
    udp = bound(socket.SOCK_DGRAM)
    settings = StatsdSettings(name="edge", topic=topic, flush_ms=FLUSH_MS, receive_buffer_bytes=4096)
    listener = StatsdListener(settings, intake, udp, clock=ManualClock())
    Sender(udp.getsockname(), ("", 0)).datagram(*[b"a:1|c"] * 500)  # nobody reads yet
    listener.run(lambda: True)
    listener.close()
    intake.close()

    metrics = read_topic(
        spark, topic, schema="name STRING, start TIMESTAMP", bounded=True, bootstrap=bootstrap
    )
    window = op.Tumbling(
        "1 day",
        by="name",
        time="start",
        aggregate={"complete": "completeness(*)"},
        late=op.Correct(within="1 hour"),
    )
    found = {row.name: row.complete for row in metrics.transform(window).collect()}
    assert 0 < listener.received < 500
    assert found == {each: pytest.approx(listener.received / 500) for each in ("a", "edge")}


def test_window_lasts_until_the_broker_is_back_and_nothing_is_lost(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", durability="os", default_partitions=1)
    edge = EdgeSettings(memory_bytes_max=2**20, in_flight_bytes_max=2**20, stop_s=60)
    clock = ManualClock()
    with Intake({"bootstrap.servers": broker.bootstrap, "log_level": 0}, edge, name="edge") as intake:
        with listening(intake, "metrics", clock) as (sender, listener):
            sent = 0
            while intake.count().pushed_back == 0:
                sender.lines(b"".join(b"m%d:1|c\n" % number for number in range(1000)))
                sent += 1000
                clock.advance_ms(FLUSH_MS)
                expected = sent
                wait_until(lambda: listener.metrics + listener._window.metrics == expected)  # noqa: B023
            broker.start()
            wait_until(lambda: listener._is_written)
        intake.close()
        events = events_in(broker.bootstrap, "metrics")
        broker.kill()
    assert sum(each["value"] for each in events if each["type"] == "counter") == sent


def test_different_metrics_of_a_window_are_bounded(intake: Intake, bootstrap: str, topic: str) -> None:
    bounds = replace(BOUNDS, series_max=10)
    with listening(intake, topic, ManualClock(), bounds=bounds) as (sender, listener):
        sender.lines(b"".join(b"m%d:1|c\n" % number for number in range(100)))
        wait_until(lambda: listener._window_received == 100)
    intake.close()
    own = next(each for each in events_in(bootstrap, topic) if each["type"] == "listener")
    assert (own["series"], own["garbage"]) == (10, {"too many different metrics": 90})
