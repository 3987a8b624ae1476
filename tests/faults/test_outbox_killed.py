"""`kill -9` of the runner of an outbox, and of its broker, under load: each event is there once, in commit order."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec import Struct

from headrace.cdc.capture import Capture, Captures
from headrace.cdc.outbox import Outbox, add, create_statement
from headrace.cdc.runner import CaptureRun
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from headrace.testing.postgres import PostgresServer
from tests.faults.broker_process import BrokerProcess

SEED = int(os.environ.get("HEADRACE_TEST_KILL_SEED", "20261118"))
RUNS_S_MAX = 3.0
EVENTS_MIN = 30
"""In each round; fewer would test nothing."""


class Database(Struct, frozen=True, kw_only=True):
    kind: str
    address: str
    table: str
    connect: Callable[[], Any]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        path = tmp_path / "shop.db"
        sqlite3.connect(path).execute("PRAGMA journal_mode = WAL").close()
        address, kind, table = f"sqlite:///{path}", "sqlite", "outbox"
        return Database(
            kind=kind, address=address, table=table, connect=lambda: sqlite3.connect(path, timeout=60)
        )
    server: PostgresServer = request.getfixturevalue("postgres")
    postgres = server.create_database(f"outbox_{uuid.uuid4().hex[:8]}")
    return Database(
        kind="postgresql",
        address=postgres,
        table="public.outbox",
        connect=lambda: psycopg.connect(postgres),
    )


class Writers:
    """Programs that count, and write an event for each number, until they are stopped."""

    def __init__(self, database: Database, count: int) -> None:
        self._database = database
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(each,)) for each in range(count)]

    def __enter__(self) -> None:
        for each in self._threads:
            each.start()

    def __exit__(self, *_error: object) -> None:
        self._stopping.set()
        for each in self._threads:
            each.join()

    def _write(self, number: int) -> None:
        choices = random.Random(SEED + number)
        connection = self._database.connect()
        while not self._stopping.wait(0.01):
            # The first statement takes the lock of the counter, so that transactions follow each other.
            connection.execute("UPDATE counter SET n = n + 1")
            (n,) = connection.execute("SELECT n FROM counter").fetchone()
            add(connection, aggregatetype="number", aggregateid="1", type="counted", payload=str(n))
            connection.execute(f"INSERT INTO history VALUES ({n})")
            if choices.random() < 0.1:
                connection.rollback()
            else:
                connection.commit()
        connection.close()


def kill_in_rounds(tmp_path: Path, database: Database, *, rounds: int) -> None:
    moments = random.Random(SEED)
    connection = database.connect()
    connection.execute(create_statement(database.kind))
    connection.execute("CREATE TABLE counter (n INTEGER)")
    connection.execute("CREATE TABLE history (n INTEGER)")
    connection.execute("INSERT INTO counter VALUES (0)")
    connection.commit()
    name = f"killed{uuid.uuid4().hex[:8]}"
    topic = f"numbers-{name}"
    capture = Capture(
        name=name, address=database.address, partitions=1, outbox=Outbox(table=database.table, topic=topic)
    )
    folder = Captures(tmp_path / "data").add(capture)
    command = [sys.executable, "-m", "headrace", "cdc", "run", name, "--data-dir", str(tmp_path / "data")]
    with BrokerProcess(tmp_path / "broker") as broker:
        cluster = Cluster(broker.bootstrap, timeout_s=30)
        CaptureRun(capture, folder, cluster, once=True).run()
        with Writers(database, 2):
            for number in range(rounds):
                process = subprocess.Popen(
                    [*command, "--bootstrap", broker.bootstrap], stderr=subprocess.DEVNULL
                )
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(moments.uniform(0.3, RUNS_S_MAX))
                if number % 3 == 2:
                    broker.kill()
                    broker.start()
                process.kill()
                process.wait()
        CaptureRun(capture, folder, cluster, once=True).run()
        published = [int(message.value() or 0) for message in read_committed(cluster, topic)]
    counted = [n for (n,) in connection.execute("SELECT n FROM history ORDER BY n").fetchall()]
    (left,) = connection.execute("SELECT count(*) FROM outbox").fetchone()
    connection.close()
    source = capture.open_source()
    source.remove()
    source.close()
    assert len(counted) > EVENTS_MIN * rounds, "the writers did not get far enough to test anything"
    assert published == counted
    assert left == 0


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_outbox_killed_with_its_broker_has_every_event_once(tmp_path: Path, database: Database) -> None:
    kill_in_rounds(tmp_path, database, rounds=3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_outbox_killed_at_thirty_random_moments_has_every_event_once(
    tmp_path: Path, database: Database
) -> None:
    kill_in_rounds(tmp_path, database, rounds=30)
