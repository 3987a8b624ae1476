"""Jobs whose broker, database, cache or disk becomes unavailable: rows wait, and are written once."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline import Job, read_topic
from headrace.pipeline.report.registry import JobState
from headrace.pipeline.run.supervisor import RunningJob
from headrace.pipeline.sinks import Redis, Table
from headrace.pipeline.sinks.sink import Sink
from headrace.testing.postgres import PostgresServer
from headrace.testing.redis_server import RedisServer
from headrace.testing.requirements import require_postgres, require_redis
from tests.compatibility.topic_contents import write
from tests.faults.broker_process import BrokerProcess
from tests.faults.sink_jobs import ordered, postgres_rows, redis_rows
from tests.pipeline.journal_sink import Journal, rows_in

pytestmark = pytest.mark.timeout(400)

PATIENCE_S = 120.0
DISK_BYTES = 2 << 20


def orders(first: int, last: int) -> list[dict[str, Any]]:
    return [{"user": f"u{n % 3}", "n": n} for n in range(first, last)]


def send(bootstrap: str, topic: str, first: int, last: int) -> None:
    write(bootstrap, topic, [{"value": json.dumps(row)} for row in orders(first, last)])


def eventually(what: Callable[[], Any]) -> Any:
    deadline_s = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < deadline_s, "it does not happen"
        time.sleep(0.1)
    return found


def start(spark: SparkSession, bootstrap: str, topic: str, sink: Sink, **options: Any) -> RunningJob:
    rows = read_topic(spark, topic, schema="user STRING, n INT", bootstrap=bootstrap).select("user", "n")
    return Job(f"{topic}-job", rows, sink, restarts_max=100, **options).start()


def has_failed(running: RunningJob) -> bool:
    return running.status().restarts > 0


@pytest.fixture(autouse=True)
def quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PIPELINE_RESTART_BACKOFF_S_MAX", "1")


@pytest.fixture
def topic(tmp_path: Path) -> str:
    return tmp_path.name


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system that is full soon."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_broker_killed_and_started_again_under_a_running_job(
    spark: SparkSession, tmp_path: Path, topic: str
) -> None:
    journal = Journal(tmp_path / "journal.db")
    with BrokerProcess(tmp_path / "broker") as broker:
        send(broker.bootstrap, topic, 0, 10)
        running = start(spark, broker.bootstrap, topic, journal)
        try:
            eventually(lambda: rows_in(journal.path) == ordered(orders(0, 10)))
            broker.kill()
            broker.start()
            send(broker.bootstrap, topic, 10, 20)
            eventually(lambda: len(rows_in(journal.path)) >= 20)
        finally:
            running.stop()
    assert rows_in(journal.path) == ordered(orders(0, 20))


def test_postgresql_restarted_under_a_running_job(spark: SparkSession, bootstrap: str, topic: str) -> None:
    require_postgres()
    with PostgresServer() as postgres:
        address = postgres.create_database("shop")

        def rows() -> list[dict[str, Any]]:
            return ordered(postgres_rows(address, 'SELECT "user", n FROM orders'))

        send(bootstrap, topic, 0, 10)
        running = start(spark, bootstrap, topic, Table("orders", at=address))
        try:
            eventually(lambda: running.status().rows_in == 10)
            postgres.kill()
            send(bootstrap, topic, 10, 20)
            eventually(lambda: has_failed(running))
            postgres.start()
            eventually(lambda: len(rows()) >= 20)
        finally:
            running.stop()
        assert rows() == ordered(orders(0, 20))


def test_redis_restarted_under_a_running_job(spark: SparkSession, bootstrap: str, topic: str) -> None:
    require_redis()
    with RedisServer() as redis_server:

        def rows() -> list[dict[str, Any]]:
            return ordered(redis_rows(redis_server.address, "orders"))

        send(bootstrap, topic, 0, 10)
        cache = Redis("orders", key="n", at=redis_server.address, timeout_s=1)
        running = start(spark, bootstrap, topic, cache)
        try:
            eventually(lambda: running.status().rows_in == 10)
            redis_server.kill()
            send(bootstrap, topic, 10, 20)
            eventually(lambda: has_failed(running))
            redis_server.start()
            eventually(lambda: len(rows()) >= 20)
        finally:
            running.stop()
        assert rows() == ordered(orders(0, 20))


def test_full_disk_under_the_checkpoint_holds_up_a_job_until_there_is_room(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, small_disk: Path
) -> None:
    journal = Journal(tmp_path / "journal.db")
    send(bootstrap, topic, 0, 10)
    running = start(spark, bootstrap, topic, journal, checkpoint=small_disk / "checkpoint")
    try:
        eventually(lambda: rows_in(journal.path) == ordered(orders(0, 10)))
        fill(small_disk / "filler")
        send(bootstrap, topic, 10, 20)
        eventually(lambda: has_failed(running))
        assert "space" in running.status().error.lower()
        (small_disk / "filler").unlink()
        eventually(lambda: len(rows_in(journal.path)) >= 20)
        eventually(lambda: running.status().state is JobState.RUNNING)
    finally:
        running.stop()
    assert rows_in(journal.path) == ordered(orders(0, 20))


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as filler:
        for piece in (1 << 16, 1 << 10, 1):
            while True:
                try:
                    filler.write(b"x" * piece)
                except OSError:
                    break
