"""The sizes of the samples of the benchmark of edges, and its servers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import bench, programs
from benchmarks.broker.brokers import Durability, RunningBroker, running_broker
from benchmarks.edges.karapace import running_karapace
from benchmarks.measurements import Side
from headrace.kafka.cluster import Cluster

TOPIC = "events"
STOP_S_MAX = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    warmup_requests: int
    requests: int
    """Each has a batch of 100 events."""
    events_per_s: int
    """That are written while a stream is read."""
    stream_events: int
    subscribers: int
    stdin_lines: int
    flood_s: float
    """How long StatsD packets are sent at each rate."""
    rates: tuple[int, int]
    """packets/s: the least and the most that are tried"""
    steps: int
    """of the search between them; each halves what is left"""
    cpu_rate: int
    """packets/s at which CPU time is measured"""
    deliveries: int
    """of webhooks"""
    direct_events: int
    """that are sent over ZeroMQ"""


FULL = Sizes(
    warmup_requests=300,
    requests=5_000,
    events_per_s=1_000,
    stream_events=20_000,
    subscribers=5_000,
    stdin_lines=5_000_000,
    flood_s=3.0,
    rates=(5_000, 600_000),
    steps=8,
    cpu_rate=50_000,
    deliveries=50_000,
    direct_events=500_000,
)
QUICK = Sizes(
    warmup_requests=10,
    requests=50,
    events_per_s=200,
    stream_events=200,
    subscribers=100,
    stdin_lines=50_000,
    flood_s=0.2,
    rates=(1_000, 50_000),
    steps=1,
    cpu_rate=5_000,
    deliveries=500,
    direct_events=2_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    url: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(bench.Bench):
    sizes: Sizes

    @contextlib.contextmanager
    def broker(self, *, partitions: int) -> Iterator[RunningBroker]:
        """With the topic of the events."""
        with self.folder() as folder, running_broker(Side.HEADRACE, folder, Durability.OS) as broker:
            cluster = Cluster(broker.bootstrap, timeout_s=30)
            cluster.create_topic(TOPIC, partitions=partitions)
            cluster.require_topics([TOPIC], appear_s_max=30)
            yield broker

    @contextlib.contextmanager
    def server(self, side: Side, bootstrap: str) -> Iterator[Server]:
        """The gateway, the bare route or Karapace. The first line of output of the first two ends with the address."""
        if side is Side.KARAPACE:
            with running_karapace(bootstrap) as (url, pid):
                yield Server(url=url, pid=pid)
            return
        if side is Side.FASTAPI:
            command = [sys.executable, "-m", "benchmarks.edges.programs.bare_route", bootstrap]
        else:
            options = ["--listen", "127.0.0.1:0", "--bootstrap", bootstrap]
            command = [sys.executable, "-m", "headrace", "gateway", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield Server(url=process.stdout.readline().split()[-1], pid=process.pid)
            finally:
                process.terminate()
                process.wait(STOP_S_MAX)

    def run_program(self, name: str, **arguments: Any) -> dict[str, float]:
        return programs.run_program(self, f"benchmarks.edges.programs.{name}", **arguments)


Subject = bench.Subject[Bench]
