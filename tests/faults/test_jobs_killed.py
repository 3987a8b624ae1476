"""`kill -9` of a driver, for every sink: afterwards the targets hold what they would have held without it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.apache_kafka import ApacheKafka
from headrace.testing.faults import KILL_VARIABLE
from headrace.testing.postgres import PostgresServer
from headrace.testing.redis_server import RedisServer
from headrace.testing.requirements import require_java
from tests.compatibility.topic_contents import write
from tests.faults.sink_jobs import STARTED, Places, sink_jobs

ROWS_PER_BATCH = 50
BATCHES = 6
"""Enough that each death happens within a batch which is neither the first nor the last one."""

RUN_S_MAX = 400.0
"""A hang is a failure."""

ROUNDS = int(os.environ.get("HEADRACE_TEST_KILL_ROUNDS", "20"))
FIRST_SECONDS = 8.0
"""Within which a random death comes: the batches of a round take about as long on a small machine."""

SEED = int(os.environ.get("HEADRACE_TEST_KILL_SEED", "20261115"))


SOME = ("journal", "topic-by-tasks", "table-postgres")
"""Of each way to keep a fence one: with state, by tasks side by side, in a server's own transaction."""


class Orders:
    """What was sent to the topic, and so what the targets must hold."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.sent: list[dict[str, Any]] = []

    def send(self, count: int) -> None:
        first = len(self.sent)
        new = [{"user": f"u{n % 7}", "n": n} for n in range(first, first + count)]
        write(self._places.bootstrap, self._places.topic, [{"value": json.dumps(row)} for row in new])
        self.sent += new

    def check(self, names: Sequence[str]) -> None:
        for name in names:
            job = sink_jobs(self._places)[name]
            assert job.found() == job.expected(self.sent), f"{name} holds other rows than an undisturbed run"


@pytest.fixture(params=["headrace", pytest.param("kafka", marks=pytest.mark.slow)])
def any_bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """The broker of this test run, and Apache Kafka."""
    if request.param == "headrace":
        yield request.getfixturevalue("bootstrap")
        return
    require_java()
    with ApacheKafka() as kafka:
        yield kafka.bootstrap


@pytest.fixture
def places(any_bootstrap: str, postgres: PostgresServer, redis_server: RedisServer, tmp_path: Path) -> Places:
    name = f"killed-{uuid.uuid4().hex[:8]}"
    return Places(
        bootstrap=any_bootstrap,
        topic=name,
        folder=str(tmp_path),
        postgres=postgres.create_database(name),
        redis=redis_server.address,
    )


@pytest.fixture
def orders(places: Places) -> Orders:
    return Orders(places)


@contextlib.contextmanager
def driver(places: Places, names: Sequence[str] = (), **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The process of all jobs, or of those named; whatever is left of it afterwards is killed, with its JVM."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.sink_jobs", str(places.save()), *names],
        env={
            **os.environ,
            "HEADRACE_PIPELINE_ROWS_PER_BATCH_MAX": str(ROWS_PER_BATCH),
            **environment,
        },
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def run_to_the_end(places: Places, names: Sequence[str] = ()) -> None:
    with driver(places, names) as process:
        assert process.wait(RUN_S_MAX) == 0


def kill_at_every_step(places: Places, orders: Orders, names: Sequence[str]) -> None:
    orders.send(ROWS_PER_BATCH * BATCHES)
    for point in ("before-write", "after-write", "after-commit"):
        with driver(places, names, **{KILL_VARIABLE: f"{point}:2:{len(names)}"}) as process:
            assert process.wait(RUN_S_MAX) == -signal.SIGKILL, f"it was not killed at {point}"
    run_to_the_end(places, names)
    orders.check(names)


@pytest.mark.timeout(1800)
def test_driver_killed_between_every_two_steps_of_a_batch_changes_nothing(
    places: Places, orders: Orders
) -> None:
    kill_at_every_step(places, orders, SOME)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_driver_of_every_sink_killed_between_every_two_steps_of_a_batch_changes_nothing(
    places: Places, orders: Orders
) -> None:
    kill_at_every_step(places, orders, list(sink_jobs(places)))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_driver_killed_at_twenty_random_moments_changes_nothing(places: Places, orders: Orders) -> None:
    moments = random.Random(SEED)
    deaths = 0
    for _ in range(ROUNDS):
        orders.send(ROWS_PER_BATCH * 2)
        with driver(places) as process:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == STARTED
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moments.uniform(0, FIRST_SECONDS))
            deaths += process.poll() is None
    assert deaths > ROUNDS / 2, "the moments come too late to test anything"
    run_to_the_end(places)
    orders.check(list(sink_jobs(places)))
