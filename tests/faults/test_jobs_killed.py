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
from tests.faults.sink_jobs import STARTED, Places, postgres_rows, sink_jobs

ROWS_PER_BATCH = 50
BATCHES = 6
"""Enough that each death happens within a batch which is neither the first nor the last one."""

RUN_S_MAX = 400.0
"""A hang is a failure."""

ROUNDS = int(os.environ.get("HEADRACE_TEST_KILL_ROUNDS", "50"))
FIRST_S = 10.0
"""Within which a random death comes, from the start of the process: Python, Spark and the first batches."""

BATCHES_S = 3.0
"""Within which a random death comes after the queries have started: before the first commit, and in each batch."""

DEATHS_PER_JOB = 5
"""Then the job runs to its end, and a new one begins: only a new job has a first batch."""

SEED = int(os.environ.get("HEADRACE_TEST_KILL_SEED", "20261115"))


SINKS = (
    "journal",
    "topic",
    "topic-by-spark",
    "topic-by-tasks",
    "table-sqlite",
    "table-sqlite-upsert",
    "table-postgres",
    "table-postgres-by-tasks",
    "redis",
    "redis-by-tasks",
    "search",
    "delta",
    "delta-by-tasks",
    "each",
)

SOME = ("journal", "topic-by-tasks", "table-postgres")
"""Of each way to keep a fence one: with state, by tasks side by side, in a server's own transaction."""


class Orders:
    """What was sent to the topic, and so what the targets must hold."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.sent: list[dict[str, Any]] = []
        self.bad: list[str] = []

    def send(self, count: int) -> None:
        first = len(self.sent)
        new = [{"user": f"u{n % 7}", "n": n} for n in range(first, first + count)]
        bad = f"bad {first}"
        values = [*(json.dumps(row) for row in new), bad]
        write(self._places.bootstrap, self._places.topic, [{"value": value} for value in values])
        self.sent += new
        self.bad.append(bad)

    def check(self, names: Sequence[str]) -> None:
        for name in names:
            job = sink_jobs(self._places)[name]
            assert job.found() == job.expected(self.sent), f"{name} holds other rows than an undisturbed run"
            assert sorted(self._places.letters(name)) == sorted(self.bad), f"{name} has other dead letters"


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


@pytest.mark.timeout(600)
def test_driver_killed_after_tasks_have_written_and_before_it_commits_changes_nothing(
    places: Places, orders: Orders
) -> None:
    names = ["table-postgres-by-tasks", "redis-by-tasks", "delta-by-tasks"]
    orders.send(ROWS_PER_BATCH * BATCHES)
    with driver(places, names, **{KILL_VARIABLE: f"after-stage:2:{len(names)}"}) as process:
        assert process.wait(RUN_S_MAX) == -signal.SIGKILL, "it was not killed"
    stages = "SELECT relname FROM pg_class WHERE relname LIKE 'headrace_stage_%'"
    assert len(postgres_rows(places.postgres, stages)) == 1
    run_to_the_end(places, names)
    orders.check(names)
    assert postgres_rows(places.postgres, stages) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_driver_of_every_sink_killed_between_every_two_steps_of_a_batch_changes_nothing(
    places: Places, orders: Orders
) -> None:
    # Spark itself writes one of them: its batches do not reach these points.
    kill_at_every_step(places, orders, [name for name in SINKS if name != "topic-by-spark"])


def die_somewhere(process: subprocess.Popen[str], moments: random.Random) -> bool:
    """Kill the driver at a random moment of its start or of its batches; False if it had ended before."""
    within_s = FIRST_S
    if moments.random() < 0.5:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == STARTED, "it did not start after a crash"
        within_s = BATCHES_S
    with contextlib.suppress(subprocess.TimeoutExpired):
        assert process.wait(moments.uniform(0, within_s)) == 0, "it failed after a crash"
        return False
    process.kill()
    return True


def kill_at_random_moments(places: Places, orders: Orders, name: str, *, rounds: int, seed: int) -> int:
    """How often the driver was killed. Its JVM ends by itself, a moment later; so does that of a user."""
    moments = random.Random(seed)
    deaths = 0
    with contextlib.ExitStack() as leftovers:
        for _ in range(rounds):
            orders.send(ROWS_PER_BATCH * 2)
            deaths += die_somewhere(leftovers.enter_context(driver(places, [name])), moments)
        run_to_the_end(places, [name])
    orders.check([name])
    jobs = places.path / "data" / "jobs"
    assert [path for path in jobs.rglob(".*") if not path.name.endswith(".crc")] == [], "a crash left files"
    return deaths


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_driver_killed_at_random_moments_from_its_first_second_changes_nothing(
    bootstrap: str, tmp_path: Path
) -> None:
    places = Places(
        bootstrap=bootstrap,
        topic=f"killed-{uuid.uuid4().hex[:8]}",
        folder=str(tmp_path),
        postgres="",
        redis="",
    )
    kill_at_random_moments(places, Orders(places), "table-sqlite", rounds=2, seed=SEED)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SINKS)
def test_driver_of_a_sink_killed_at_fifty_random_moments_changes_nothing(
    bootstrap: str, postgres: PostgresServer, redis_server: RedisServer, tmp_path: Path, name: str
) -> None:
    deaths = 0
    for first in range(0, ROUNDS, DEATHS_PER_JOB):
        topic = f"killed-{uuid.uuid4().hex[:8]}"
        folder = tmp_path / topic
        folder.mkdir()
        places = Places(
            bootstrap=bootstrap,
            topic=topic,
            folder=str(folder),
            postgres=postgres.create_database(topic),
            redis=redis_server.address,
        )
        deaths += kill_at_random_moments(
            places, Orders(places), name, rounds=min(DEATHS_PER_JOB, ROUNDS - first), seed=SEED + first
        )
    print(f"killed {deaths} times")
    assert deaths > ROUNDS / 2, "the moments come too late to test anything"


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_driver_of_every_sink_killed_at_random_moments_changes_nothing(
    places: Places, orders: Orders
) -> None:
    moments = random.Random(SEED)
    for _ in range(ROUNDS):
        orders.send(ROWS_PER_BATCH * 2)
        with driver(places) as process:
            die_somewhere(process, moments)
    run_to_the_end(places)
    orders.check(SINKS)
