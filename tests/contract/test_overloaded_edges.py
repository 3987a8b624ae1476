"""What every edge promises for every overload policy, while the broker is stalled: memory is bounded, and no event is
lost uncounted. tests/edges/direct/test_receiver.py has it for multicast, tests/faults/test_webhooks_in_killed.py for
webhooks."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq
from msgspec import Struct

from headrace.edges.direct.carried import carried_by
from headrace.edges.direct.nng import NngSink, NngSource
from headrace.edges.direct.packet import encode_packet
from headrace.edges.direct.receiver import Receiver
from headrace.edges.direct.settings import ReceiverSettings
from headrace.edges.direct.transport import Sink, Source
from headrace.edges.direct.zeromq import ZeroMQSink, ZeroMQSource
from headrace.edges.files.follower import FileFollower
from headrace.edges.files.positions import Positions
from headrace.edges.files.settings import FilesSettings
from headrace.edges.overload import Intake
from headrace.edges.settings import EdgeSettings, Policy
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from headrace.testing.manual_clock import ManualClock
from tests.edges.conftest import wait_until
from tests.edges.direct.conftest import heartbeat, packet
from tests.edges.direct.test_transport import connect
from tests.edges.statsd import test_listener as statsd
from tests.edges.test_tcp import listening as tcp_listening
from tests.faults.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(180)

POLICIES: tuple[Policy, ...] = ("drop-newest", "drop-oldest", "block", "buffer")
MB = 1024 * 1024
EVENTS = 30_000
"""Several times as many as fit into memory, into the window of the producer, and into the queues of a transport."""
PART = 1_000
FILLER = b"." * 200


class Edge(Struct, kw_only=True):
    """An edge that runs: how numbers are sent to it, and what a value of its topic says."""

    send: Callable[[int, int], None]
    """the numbers from … to; it waits as long as the sender has to wait"""
    number_of: Callable[[bytes], int | None]
    """None: an event of the edge itself"""


Opening = Callable[[Intake, str, Path], contextlib.AbstractContextManager[Edge]]


def line(number: int) -> bytes:
    return b"%d %s" % (number, FILLER)


def number_in_line(value: bytes) -> int:
    return int(value.partition(b" ")[0])


@contextlib.contextmanager
def tcp(intake: Intake, topic: str, _folder: Path) -> Iterator[Edge]:
    with tcp_listening(intake, topic) as address, socket.create_connection(address) as sender:

        def send(first: int, end: int) -> None:
            sender.sendall(b"".join(line(number) + b"\n" for number in range(first, end)))

        yield Edge(send=send, number_of=number_in_line)


@contextlib.contextmanager
def files(intake: Intake, topic: str, folder: Path) -> Iterator[Edge]:
    path = folder / "a.log"
    settings = FilesSettings(
        name="edge", patterns=(str(path),), topic=topic, from_beginning=True, poll_s=0.01
    )
    follower = FileFollower(settings, intake, Positions(folder / "positions"))
    with in_thread(follower.run), path.open("ab") as log:

        def send(first: int, end: int) -> None:
            log.write(b"".join(line(number) + b"\n" for number in range(first, end)))
            log.flush()

        yield Edge(send=send, number_of=number_in_line)
    intake.close()
    follower.close()


@contextlib.contextmanager
def statsd_over_tcp(intake: Intake, topic: str, _folder: Path) -> Iterator[Edge]:
    clock = ManualClock()
    with statsd.listening(intake, topic, clock) as (sender, listener):

        def send(first: int, end: int) -> None:
            sender.lines(b"".join(b"%d.%s:1|c\n" % (number, FILLER) for number in range(first, end)))
            wait_until(lambda: listener.metrics + listener._window.metrics == end)
            clock.advance_ms(statsd.FLUSH_MS)

        def number_of(value: bytes) -> int | None:
            event = json.loads(value)
            return int(event["name"].partition(".")[0]) if event["type"] == "counter" else None

        yield Edge(send=send, number_of=number_of)


@contextlib.contextmanager
def pipeline(intake: Intake, topic: str, _folder: Path) -> Iterator[Edge]:
    """PUSH and PULL of ZeroMQ, with plain messages: the sender waits."""
    with zmq.Context() as context, context.socket(zmq.PUSH) as sender:
        sender.setsockopt(zmq.LINGER, 0)
        port = sender.bind_to_random_port("tcp://127.0.0.1")
        source = ZeroMQSource([f"tcp://127.0.0.1:{port}"], pattern="pipeline")
        with receiving(intake, topic, source, is_plain=True):

            def send(first: int, end: int) -> None:
                for number in range(first, end):
                    sender.send(line(number))

            yield Edge(send=send, number_of=number_in_line)


@contextlib.contextmanager
def receiving(intake: Intake, topic: str, source: Source, *, is_plain: bool) -> Iterator[Receiver]:
    settings = ReceiverSettings(
        name="feed", topic=topic, loss_topic=f"{topic}.loss", interval_ms=3_600_000, letters_max=0
    )
    receiver = Receiver(settings, intake, source, is_plain=is_plain)
    with contextlib.closing(source), in_thread(receiver.run):
        yield receiver


@contextlib.contextmanager
def in_thread(run: Callable[[Callable[[], bool]], None]) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop.is_set,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("edges")
    with BrokerProcess(folder / "broker", durability="os", default_partitions=1) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    return f"events-{uuid.uuid4().hex[:12]}"


@contextlib.contextmanager
def stalled(broker: BrokerProcess) -> Iterator[None]:
    broker.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        broker.process.send_signal(signal.SIGCONT)


def intake_with(policy: Policy, broker: BrokerProcess, folder: Path, *, marks_drops: bool = True) -> Intake:
    settings = EdgeSettings(
        overload=policy, data_dir=folder / "edge", memory_bytes_max=MB, in_flight_bytes_max=MB, stop_s=60
    )
    config = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    return Intake(config, settings, name="edge", marks_drops=marks_drops)


def send_parts(edge: Edge) -> None:
    for at in range(PART, EVENTS, PART):
        edge.send(at, at + PART)


class Watch:
    """The most memory that an intake takes, until the context ends."""

    def __init__(self, intake: Intake) -> None:
        self.bytes_most = 0
        self._intake = intake
        self._running = in_thread(self._watch)

    def _watch(self, is_stopping: Callable[[], bool]) -> None:
        pause = threading.Event()
        while not is_stopping():
            self.bytes_most = max(self.bytes_most, self._intake.count().memory_bytes)
            pause.wait(0.01)

    def __enter__(self) -> Watch:
        self._running.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._running.__exit__(None, None, None)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("opening", [tcp, files, statsd_over_tcp, pipeline])
def test_stalled_broker_bounds_memory_and_every_event_arrives_or_is_counted(
    opening: Opening, policy: Policy, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    with intake_with(policy, broker, tmp_path) as intake:
        with opening(intake, topic, tmp_path) as edge, Watch(intake) as watch:
            edge.send(0, PART)
            wait_until(lambda: intake.count().delivered >= 1)
            with stalled(broker):
                sending = threading.Thread(target=send_parts, args=(edge,))
                sending.start()
                if policy == "block":
                    wait_until(lambda: intake.count().pushed_back > 0)
                else:
                    wait_until(lambda: intake.count().received >= EVENTS)
            sending.join()
            wait_until(lambda: intake.count().received >= EVENTS and intake.count().pending == 0)
            edge.send(EVENTS, EVENTS + 1)
            wait_until(lambda: intake.count().received > EVENTS)
        count = intake.close()
    records = [*read_committed(Cluster(broker.bootstrap, timeout_s=30), topic)]
    numbers = [number for each in records if (number := edge.number_of(each.value() or b"")) is not None]

    # A batch more may be in flight, and an offer more may wait.
    assert 0 < watch.bytes_most <= 4 * MB
    assert (count.pending, count.received) == (0, count.delivered + count.dropped_total)
    assert numbers == sorted(set(numbers))
    if policy in ("block", "buffer"):
        assert (len(numbers), count.dropped) == (EVENTS + 1, {})
        return
    assert set(count.dropped) == {policy.removeprefix("drop-")}
    marks = [int(dict(each.headers() or ()).get("edge.dropped") or b"0") for each in records]
    if opening is statsd_over_tcp:  # an event stands for the packets of its window
        assert EVENTS + 1 - count.dropped_total <= len(numbers) <= EVENTS
        assert sum(marks) > count.dropped_total
    else:
        assert len(numbers) + count.dropped_total == len(numbers) + sum(marks) == EVENTS + 1


FEEDS: dict[str, Callable[[], tuple[Source, Sink]]] = {
    "zeromq": lambda: _connected(ZeroMQSink("tcp://127.0.0.1:0", subject="quotes"), ZeroMQSource),
    "nng": lambda: _connected(NngSink("tcp://127.0.0.1:0"), NngSource),
}


def _connected(sink: Sink, source_kind: Callable[[list[str]], Source]) -> tuple[Source, Sink]:
    source = source_kind([sink.address])
    connect(source, sink)
    return source, sink


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", FEEDS)
def test_numbered_feed_says_in_the_data_what_was_lost_while_the_broker_was_stalled(
    kind: str, policy: Policy, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    source, sink = FEEDS[kind]()
    with contextlib.closing(sink), intake_with(policy, broker, tmp_path, marks_drops=False) as intake:
        with receiving(intake, topic, source, is_plain=False) as receiver, Watch(intake) as watch:

            def send(first: int, end: int) -> None:
                for number in range(first, end):
                    sink.send((encode_packet(packet(number)),))

            send(0, 1)
            wait_until(lambda: intake.count().delivered >= 1)
            with stalled(broker):
                send(1, EVENTS)
                if policy == "block":
                    wait_until(lambda: intake.count().pushed_back > 0)

            def is_settled() -> bool:
                sink.send((encode_packet(heartbeat(EVENTS)),))
                return receiver.tally.received + receiver.tally.missing >= EVENTS

            wait_until(is_settled)
            wait_until(lambda: intake.count().pending == 0)
            send(EVENTS, EVENTS + 1)
            wait_until(lambda: receiver.tally.received + receiver.tally.missing == EVENTS + 1)
        intake.close()
    messages = read_committed(Cluster(broker.bootstrap, timeout_s=30), topic)
    carried = [carried_by(each.headers() or ()) for each in messages]  # type: ignore[arg-type]
    found = [each for each in carried if each is not None]

    assert 0 < watch.bytes_most <= 4 * MB
    assert [each.number for each in found] == sorted({each.number for each in found})
    assert len(found) + sum(each.losses for each in found) == found[-1].number + 1 == EVENTS + 1
    if policy.startswith("drop"):
        assert intake.count().dropped_total > 0
    else:
        assert intake.count().dropped == {}
