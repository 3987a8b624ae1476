"""`kill -9` of the runner of a capture, and of its broker, under load: every change is there once and in order."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest

from headrace.cdc.capture import Capture, Captures
from headrace.cdc.runner import CaptureRun
from headrace.kafka.cluster import Cluster
from headrace.testing.postgres import PostgresServer
from tests.cdc.conftest import committed_records
from tests.faults.broker_process import BrokerProcess

SEED = int(os.environ.get("HEADRACE_TEST_KILL_SEED", "20261117"))
KEYS = 20
RUNS_S_MAX = 3.0
"""Within which a random death comes: the start, the snapshot, the stream."""


class Database(Protocol):
    """The tables that are changed: `rows`, which is captured, and `counter`."""

    address: str
    table: str

    def connect(self) -> Any: ...
    def replace(self, key: int, n: int) -> str: ...


class Sqlite:
    table = "rows"

    def __init__(self, path: Path) -> None:
        self._path = path
        self.address = f"sqlite:///{path}"
        self.connect().execute("PRAGMA journal_mode = WAL").close()

    def connect(self) -> Any:
        return sqlite3.connect(self._path, timeout=60, isolation_level=None)

    def replace(self, key: int, n: int) -> str:
        return f"REPLACE INTO rows VALUES ({key}, {n})"


class Postgres:
    table = "public.rows"

    def __init__(self, address: str) -> None:
        self.address = address

    def connect(self) -> Any:
        return psycopg.connect(self.address, autocommit=True)

    def replace(self, key: int, n: int) -> str:
        return f"INSERT INTO rows VALUES ({key}, {n}) ON CONFLICT (id) DO UPDATE SET n = {n}"


class Writers:
    """Programs that change a table until they are stopped. `n` of a row grows with each change of it."""

    def __init__(self, database: Database, count: int) -> None:
        self._database = database
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(each,)) for each in range(count)]

    def __enter__(self) -> Writers:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopping.set()
        for each in self._threads:
            each.join()

    def _write(self, number: int) -> None:
        choices = random.Random(SEED + number)
        connection = self._database.connect()
        while not self._stopping.wait(0.005):
            connection.execute("BEGIN")
            # The first statement takes the lock of the counter, so that transactions follow each other.
            for _ in range(choices.randint(1, 5)):
                (n,) = connection.execute("UPDATE counter SET n = n + 1 RETURNING n").fetchone()
                key = choices.randrange(KEYS)
                delete = f"DELETE FROM rows WHERE id = {key}"
                connection.execute(delete if choices.random() < 0.2 else self._database.replace(key, n))
            connection.execute("ROLLBACK" if choices.random() < 0.1 else "COMMIT")
        connection.close()


@contextlib.contextmanager
def runner(name: str, data_dir: Path, bootstrap: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "headrace", "cdc", "run", name, "--data-dir", str(data_dir)]
    process = subprocess.Popen([*command, "--bootstrap", bootstrap], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def check(events: list[tuple[Any, Any]], database: Database) -> None:
    """The changes of each key follow each other without a gap and without a repeat, up to the row in the table."""
    rows: dict[int, Any] = {}
    positions: list[tuple[Any, ...]] = []
    for key, value in events:
        if value["op"] == "r":
            rows[key["id"]] = value["after"]
            continue
        source = value["source"]
        positions.append((source.get("change"), source.get("lsn"), source.get("txId")))
        assert rows.get(key["id"]) == value["before"], f"the change before {value} is missing"
        rows[key["id"]] = value["after"]
    assert len(set(positions)) == len(positions), "a change is there twice"
    connection = database.connect()
    table = {id: {"id": id, "n": n} for id, n in connection.execute("SELECT id, n FROM rows")}
    connection.close()
    assert {key: row for key, row in rows.items() if row is not None} == table


def kill_in_rounds(tmp_path: Path, database: Database, *, rounds: int) -> None:
    moments = random.Random(SEED)
    data_dir = tmp_path / "data"
    connection = database.connect()
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, n INTEGER)")
    connection.execute("CREATE TABLE counter (id INTEGER PRIMARY KEY, n INTEGER)")
    connection.execute("INSERT INTO counter VALUES (1, 0)")
    for key in range(KEYS):
        connection.execute(f"INSERT INTO rows VALUES ({key}, 0)")
    if isinstance(database, Postgres):
        connection.execute("ALTER TABLE rows REPLICA IDENTITY FULL")  # so that changes have their old rows
    connection.close()
    name = f"killed{uuid.uuid4().hex[:8]}"
    capture = Capture(name=name, address=database.address, tables=(database.table,), keep="all", partitions=1)
    folder = Captures(data_dir).add(capture)
    with BrokerProcess(tmp_path / "broker") as broker:
        with Writers(database, 2):
            for number in range(rounds):
                with runner(name, data_dir, broker.bootstrap) as process:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(moments.uniform(0.3, RUNS_S_MAX))
                    if number % 3 == 2:
                        broker.kill()
                        broker.start()
        CaptureRun(capture, folder, Cluster(broker.bootstrap, timeout_s=30), once=True).run()
        events = committed_records(broker.bootstrap, f"{name}.{database.table}")
    assert len(events) > KEYS + 50 * rounds, "the writers did not get far enough to test anything"
    check(events, database)
    source = capture.open_source()
    source.remove()
    source.close()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return Sqlite(tmp_path / "shop.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return Postgres(server.create_database(f"killed_{uuid.uuid4().hex[:8]}"))


def test_capture_killed_with_its_broker_has_every_change_once(tmp_path: Path, database: Database) -> None:
    kill_in_rounds(tmp_path, database, rounds=3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_capture_killed_at_thirty_random_moments_has_every_change_once(
    tmp_path: Path, database: Database
) -> None:
    kill_in_rounds(tmp_path, database, rounds=30)
