"""Load on RabbitMQ by its own PerfTest: persistent messages, confirms, an acknowledgement for each message."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass

from benchmarks.broker.load import CLIENT_TIMEOUT_S, ClientFailed
from benchmarks.measurements import Side
from headrace.java import JarSet, fetch_jars, last_lines
from headrace.testing.java import JavaTools

PERF_TEST = JarSet(
    name="rabbitmq-perf-test-2.22.1",
    dependencies=("com.rabbitmq:perf-test:2.22.1",),
)
CLIENT_HEAP_MB = 512
UNCONFIRMED_MAX = 1_000
"""A larger window is not faster, and an unlimited one only moves the queue into the client."""

PREFETCH = 500
"""The default of a share consumer."""

_INTERVAL = re.compile(
    r"time [\d.]+ s, .*?received: (\d+) msg/s, min/median/75th/95th/99th consumer latency: [\d/]+/(\d+) µs"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitLoad:
    uri: str
    side: Side
    queue: str
    seconds: int
    consumers: int = 1
    message_bytes: int = 100
    rate: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitFigures:
    """Figures of the second half of the run, after Java has compiled; PerfTest prints figures for each second."""

    messages_per_s: float
    p99_ms: float
    received: int  # in the whole run


def run_rabbit_load(load: RabbitLoad) -> RabbitFigures:
    arguments = [
        *_common(load.uri, load.side, load.queue, load.message_bytes),
        *("--consumers", str(load.consumers), "--qos", str(PREFETCH), "--time", str(load.seconds)),
    ]
    if load.rate:
        arguments += ["--rate", str(load.rate)]
    output = _perf_test(*arguments)
    intervals = [(int(rate), int(p99_us)) for rate, p99_us in _INTERVAL.findall(output)]
    if len(intervals) < 2:
        raise ClientFailed(f"PerfTest did not print its figures:\n{last_lines(output)}")
    later = intervals[len(intervals) // 2 :]
    return RabbitFigures(
        messages_per_s=statistics.mean(rate for rate, _ in later),
        received=sum(rate for rate, _ in intervals),
        p99_ms=statistics.median(p99_us for _, p99_us in later) / 1000,
    )


def fill(uri: str, side: Side, queue: str, messages: int, message_bytes: int) -> None:
    _perf_test(*_common(uri, side, queue, message_bytes), "--consumers", "0", "--pmessages", str(messages))


def _common(uri: str, side: Side, queue: str, message_bytes: int) -> list[str]:
    kind = ["--quorum-queue"] if side is Side.RABBITMQ_QUORUM else []
    return [
        *("--uri", uri, "--queue", queue, "--auto-delete", "false", "--flag", "persistent", *kind),
        *("--producers", "1", "--confirm", str(UNCONFIRMED_MAX), "--size", str(message_bytes)),
    ]


def _perf_test(*arguments: str) -> str:
    tools = JavaTools(jars=fetch_jars(PERF_TEST), quick_start=False, heap_mb=CLIENT_HEAP_MB)
    done = tools.run("com.rabbitmq.perf.PerfTest", *arguments, timeout_s=CLIENT_TIMEOUT_S)
    if done.returncode != 0:
        raise ClientFailed(
            f"PerfTest ended with code {done.returncode}:\n{last_lines(done.stdout + done.stderr)}"
        )
    return done.stdout
