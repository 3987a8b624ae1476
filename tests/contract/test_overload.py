"""What every overload policy promises, in front of a real broker that stalls, dies and comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct, field

from headrace.edges.event import Event, Fate
from headrace.edges.overload import Intake, Overloaded
from headrace.edges.settings import EdgeSettings, Policy
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from headrace.log.filesystem import FileSystem
from tests.edges.conftest import values_in, wait_until
from tests.faults.broker_process import BrokerProcess
from tests.faults.small_disk import SmallDisk

POLICIES: tuple[Policy, ...] = ("drop-newest", "drop-oldest", "block", "buffer")
MB = 1024 * 1024
VALUE_BYTES = 1000
EVENTS = 6_000
"""Three times as many as fit into memory and into the window of the producer."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("overload")
    with BrokerProcess(folder / "broker", durability="os", default_partitions=1) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    return f"events-{uuid.uuid4().hex[:12]}"


class Edge(Struct):
    """An intake that notes what was taken, and what became of it."""

    intake: Intake
    topic: str
    taken: list[bytes] = field(default_factory=list)
    refused: int = 0
    memory_bytes_most: int = 0
    fates: Counter[tuple[Fate, str]] = field(default_factory=Counter)
    dropped: set[bytes] = field(default_factory=set)

    def offer(self, first: int, count: int = 1) -> None:
        for number in range(first, first + count):
            value = b"%d" % number + b"." * VALUE_BYTES

            def on_fate(_number: int, fate: Fate, why: str, value: bytes = value) -> None:
                self.fates[fate, why] += 1
                if fate is Fate.DROPPED:
                    self.dropped.add(value)

            if self.intake.offer([Event(topic=self.topic, value=value)], on_fate):
                self.taken.append(value)
            else:
                self.refused += 1
            self.memory_bytes_most = max(self.memory_bytes_most, self.intake.count().memory_bytes)

    @property
    def expected(self) -> list[bytes]:
        return [value for value in self.taken if value not in self.dropped]


def edge_on(
    broker: BrokerProcess,
    topic: str,
    folder: Path,
    policy: Policy,
    *,
    files: FileSystem | None = None,
    stop_s: int = 60,
) -> Edge:
    settings = EdgeSettings(
        overload=policy,
        data_dir=folder / "edge",
        memory_bytes_max=2 * MB,
        in_flight_bytes_max=MB,
        buffer_bytes_max=64 * MB,
        stop_s=stop_s,
    )
    config = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    return Edge(Intake(config, settings, name="contract", files=files), topic)


@pytest.mark.parametrize("policy", POLICIES)
def test_stalled_broker_bounds_memory_and_what_was_taken_arrives_once_in_order(
    policy: Policy, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    edge = edge_on(broker, topic, tmp_path, policy)
    edge.offer(0)
    wait_until(lambda: edge.intake.count().delivered == 1)
    broker.process.send_signal(signal.SIGSTOP)
    edge.offer(1, EVENTS)
    broker.process.send_signal(signal.SIGCONT)
    count = edge.intake.close()

    # One event more than the window may be in flight, and the queue holds one when it is smaller.
    assert edge.memory_bytes_most <= 3 * MB + 2 * (VALUE_BYTES + 1000)
    assert values_in(broker.bootstrap, topic) == edge.expected
    assert count.received == len(edge.taken) == count.delivered + count.dropped_total
    assert (count.pending, count.memory_bytes) == (0, 0)
    assert sum(edge.fates.values()) == len(edge.taken)
    match policy:
        case "drop-newest":
            assert edge.refused == 0
            assert edge.taken[-1] in edge.dropped
            assert set(count.dropped) == {"newest"}
        case "drop-oldest":
            assert edge.refused == 0
            assert edge.taken[-1] not in edge.dropped
            assert set(count.dropped) == {"oldest"}
            records = read_committed(Cluster(broker.bootstrap, timeout_s=30), topic)
            marks = [dict(each.headers() or ()).get("edge.dropped", b"0") for each in records]
            assert sum(int(each or b"") for each in marks) == count.dropped_total
        case "block":
            assert edge.refused > 0
            assert (count.dropped, count.pushed_back) == ({}, edge.refused)
        case "buffer":
            assert (edge.refused, count.dropped) == (0, {})
            assert edge.fates == {(Fate.BUFFERED, ""): EVENTS + 1}


@pytest.mark.parametrize("policy", POLICIES)
def test_broker_that_is_killed_and_started_again_loses_nothing_that_was_taken(
    policy: Policy, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    edge = edge_on(broker, topic, tmp_path, policy)
    edge.offer(0, 300)
    broker.kill()
    edge.offer(300, 300)
    broker.start()
    edge.offer(600, 300)
    count = edge.intake.close()

    assert len(edge.taken) == count.delivered == 900
    # The broker acknowledges what it has written, and a client repeats what has no response: each arrives once.
    assert values_in(broker.bootstrap, topic) == edge.taken


@pytest.mark.parametrize("policy", POLICIES)
def test_edge_that_stops_without_a_broker_accounts_for_every_event(
    policy: Policy, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    edge = edge_on(broker, topic, tmp_path, policy, stop_s=0)
    edge.offer(0)
    wait_until(lambda: edge.intake.count().delivered == 1)
    broker.kill()
    edge.offer(1, 100)
    count = edge.intake.close()

    broker.start()
    if policy == "buffer":
        assert (count.pending, count.dropped) == (100, {})
        again = edge_on(broker, topic, tmp_path, policy)
        assert again.intake.close().replayed == 100
        assert values_in(broker.bootstrap, topic) == edge.taken
    else:
        assert (count.pending, count.dropped) == (0, {"stopped": 100})
        assert values_in(broker.bootstrap, topic) == edge.taken[:1]


@pytest.mark.parametrize("policy", POLICIES)
def test_event_that_the_broker_rejects_is_dropped_with_its_reason(
    policy: Policy, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    edge = edge_on(broker, topic, tmp_path, policy)
    seen: list[tuple[int, Fate, str]] = []
    events = [Event(topic=topic, value=each) for each in (b"first", b"x" * (MB + MB // 4), b"last")]
    assert edge.intake.offer(events, lambda *fate: seen.append(fate))
    count = edge.intake.close()

    assert (count.delivered, count.dropped) == (2, {"rejected": 1})
    assert values_in(broker.bootstrap, topic) == [b"first", b"last"]
    if policy != "buffer":
        ((fate, why),) = [(fate, why) for number, fate, why in seen if number == 1]
        assert (fate, "too large" in why) == (Fate.DROPPED, True)


@pytest.mark.parametrize("policy", POLICIES)
def test_event_that_is_larger_than_the_client_can_hold_is_dropped_and_stops_no_other(
    policy: Policy, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    edge = edge_on(broker, topic, tmp_path, policy)
    for value in (b"first", b"x" * 3 * MB, b"last"):
        assert edge.intake.put([Event(topic=topic, value=value)], timeout_s=60)
        wait_until(lambda: edge.intake.count().pending == 0)
    assert edge.intake.close().dropped == {"rejected": 1}
    assert values_in(broker.bootstrap, topic) == [b"first", b"last"]


@pytest.mark.parametrize("policy", ["block", "buffer"])
def test_sender_that_was_pushed_back_goes_on_when_there_is_room(
    policy: Policy, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    files = SmallDisk(tmp_path / "edge", MB) if policy == "buffer" else None
    edge = edge_on(broker, topic, tmp_path, policy, files=files)
    edge.offer(0)
    wait_until(lambda: edge.intake.count().delivered == 1)
    broker.process.send_signal(signal.SIGSTOP)
    edge.offer(1, 2 * EVENTS // 3)
    assert edge.refused > 0
    called = threading.Event()
    edge.intake.on_room(called.set)
    assert not edge.intake.put([Event(topic=topic, value=b"early" * VALUE_BYTES)], timeout_s=0.01)
    broker.process.send_signal(signal.SIGCONT)
    if isinstance(files, SmallDisk):
        files.capacity_bytes = 100 * MB  # somebody has cleaned up
    assert edge.intake.put([Event(topic=topic, value=b"late")], timeout_s=60)
    assert called.wait(60)
    count = edge.intake.close()

    assert values_in(broker.bootstrap, topic) == [*edge.taken, b"late"]
    assert count.delivered == count.received == len(edge.taken) + 1


@pytest.mark.parametrize("policy", POLICIES)
def test_event_loop_gets_the_fate_of_each_event_and_is_told_to_wait(
    policy: Policy, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    edge = edge_on(broker, topic, tmp_path, policy, stop_s=0)

    async def talk() -> list[Fate]:
        sent = await edge.intake.send([Event(topic=topic, value=b"1"), Event(topic=topic, value=b"2")])
        broker.process.send_signal(signal.SIGSTOP)
        if policy == "block":
            edge.offer(0, EVENTS)
            with pytest.raises(Overloaded) as raised:
                await edge.intake.send([Event(topic=topic, value=b"3" * 5 * VALUE_BYTES)])
            assert raised.value.retry_after_s > 0
        return [each.fate for each in sent]

    try:
        expected = Fate.BUFFERED if policy == "buffer" else Fate.DELIVERED
        assert asyncio.run(talk()) == [expected, expected]
    finally:
        broker.process.send_signal(signal.SIGCONT)
        edge.intake.close()


def test_buffered_events_survive_a_killed_edge(broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    """Every number that the edge has taken arrives, in order; what was acknowledged just before may be repeated."""
    data_dir = tmp_path / "edge"

    def killed_edge(first: int, count: int) -> None:
        command = [sys.executable, "-m", "tests.contract.overload_edge", broker.bootstrap, topic, "buffer"]
        process = subprocess.Popen(
            [*command, str(data_dir), str(first), str(count)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process:
            for _ in range(count):
                process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)

    broker.kill()
    killed_edge(0, 500)
    broker.start()
    killed_edge(500, 500)
    settings = EdgeSettings(overload="buffer", data_dir=data_dir, stop_s=60)
    Intake({"bootstrap.servers": broker.bootstrap, "log_level": 0}, settings, name="contract").close()

    found = [int(value) for value in values_in(broker.bootstrap, topic)]
    first_times = list(dict.fromkeys(found))
    assert first_times == list(range(1000))


def test_full_buffer_pushes_back_and_takes_more_when_events_are_delivered(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    settings = EdgeSettings(
        overload="buffer", data_dir=tmp_path / "edge", buffer_bytes_max=MB, in_flight_bytes_max=MB, stop_s=60
    )
    config = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    edge = Edge(Intake(config, settings, name="contract"), topic)
    broker.kill()
    edge.offer(0, 2 * MB // VALUE_BYTES)
    assert edge.refused > 0
    assert edge.intake.count().buffered_bytes <= MB
    broker.start()
    assert edge.intake.put([Event(topic=topic, value=b"late")], timeout_s=60)
    edge.intake.close()
    assert values_in(broker.bootstrap, topic) == [*edge.taken, b"late"]
