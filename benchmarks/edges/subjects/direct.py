"""Events over ZeroMQ into a topic: a message for each, as other programs send them, and numbered packets."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.bench import measured_load
from benchmarks.broker.brokers import RunningBroker
from benchmarks.edges.bench import STOP_S_MAX, TOPIC, Bench, Subject
from benchmarks.measurements import Row, Sample, Side, Unit
from headrace.edges.direct import NumberedEvent, ZeroMQSink
from headrace.edges.direct.packing import PackingBounds, pack
from headrace.edges.direct.settings import MESSAGE_BYTES_MAX, PACKET_BYTES
from headrace.kafka.cluster import Cluster

PLAIN, NUMBERED = "direct-plain", "direct-numbered"
VALUE = b'{"symbol": "ACME", "price": 101.25, "size": 300, "at": "2026-03-01T10:00:00.000Z", "venue": "XVTX"}'
LOOK_S = 0.01
BOUNDS = PackingBounds(packet_bytes=PACKET_BYTES, packet_bytes_max=MESSAGE_BYTES_MAX)


class Direct(Subject):
    name = "edges-direct"
    title = "Events of 100 bytes over ZeroMQ into a topic"
    sides = (Side.HEADRACE, Side.BARE)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (
            Row(key=PLAIN, what="a message for each event", unit=Unit.RECORDS_PER_S),
            Row(key=NUMBERED, what="numbered packets, gaps are found", unit=Unit.RECORDS_PER_S),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        count = bench.sizes.direct_events
        if bench.wants(PLAIN):
            bench.show_step(f"{count:,} messages")
            yield PLAIN, self._load(side, bench, [VALUE] * count, is_plain=True)
        if bench.wants(NUMBERED) and side is Side.HEADRACE:
            bench.show_step(f"{count:,} events in packets")
            yield NUMBERED, self._load(side, bench, _packets(count), is_plain=False)

    def _load(self, side: Side, bench: Bench, messages: Sequence[bytes], *, is_plain: bool) -> Sample:
        """The CPU time is that of the receiver."""
        count = bench.sizes.direct_events
        with bench.folder() as folder, bench.broker(partitions=1) as broker:
            address = f"ipc://{folder}/feed"
            with (
                contextlib.closing(ZeroMQSink(address, subject=None, pattern="pipeline")) as sink,
                _receiver(side, broker, address, is_plain=is_plain) as pid,
            ):

                def load() -> float:
                    started_s = time.perf_counter()
                    for message in messages:
                        while not sink.send((message,)):
                            time.sleep(LOOK_S)
                    _wait_for(broker.bootstrap, count)
                    return count / (time.perf_counter() - started_s)

                return measured_load(pid, count, load)


def _packets(count: int) -> list[bytes]:
    events = (NumberedEvent(number=number, timestamp_ms=1, value=VALUE) for number in range(count))
    return pack(1, 0, events, 0, BOUNDS).packets


def _wait_for(bootstrap: str, count: int) -> None:
    cluster = Cluster(bootstrap, timeout_s=30)
    partitions = cluster.partitions(TOPIC)
    while sum(cluster.latest(partitions).values()) < count:
        time.sleep(LOOK_S)


@contextlib.contextmanager
def _receiver(side: Side, broker: RunningBroker, address: str, *, is_plain: bool) -> Iterator[int]:
    """Its process id."""
    if side is Side.BARE:
        command = [sys.executable, "-m", "benchmarks.edges.programs.bare_puller", broker.bootstrap, address]
    else:
        options = ["--topic", TOPIC, "--connect", address, "--pipeline", "--bootstrap", broker.bootstrap]
        command = [sys.executable, "-m", "headrace", "edge", "zeromq", "subscribe", *options]
        command += ["--plain"] if is_plain else []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert any("ready" in line for line in process.stderr)
            yield process.pid
        finally:
            process.terminate()
            process.wait(STOP_S_MAX)
