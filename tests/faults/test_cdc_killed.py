"""`kill -9` of the runner of a capture, of its broker and of its database, under load: every change is there once and
in order."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pymysql
import pytest

from headrace.cdc.capture import Capture, CaptureFolder, Captures
from headrace.cdc.runner import CaptureRun
from headrace.kafka.cluster import Cluster
from headrace.testing.mariadb import MariadbServer
from headrace.testing.postgres import PostgresServer
from headrace.testing.requirements import require_mariadb, require_postgres
from tests.cdc.conftest import committed_records
from tests.faults.broker_process import BrokerProcess

SEED = int(os.environ.get("HEADRACE_TEST_KILL_SEED", "20261117"))
KEYS = 20
RUNS_S_MAX = 3.0
"""Within which a random death comes: the start, the snapshot, the stream."""


class Database(Protocol):
    """The tables that are changed: `items`, which is captured, and `counter`."""

    address: str
    table: str

    def connect(self) -> Any: ...
    def count(self, connection: Any) -> int:
        """The next number. Takes the lock of the counter, so that transactions follow each other."""
        ...

    def replace(self, key: int, n: int) -> str: ...
    def kill(self) -> bool:
        """End the server without warning, and start it again. False if there is none."""
        ...


class Sqlite:
    table = "items"

    def __init__(self, path: Path) -> None:
        self._path = path
        self.address = f"sqlite:///{path}"
        self.connect().execute("PRAGMA journal_mode = WAL").close()

    def connect(self) -> Any:
        return sqlite3.connect(self._path, timeout=60, isolation_level=None)

    def count(self, connection: Any) -> int:
        (n,) = connection.execute("UPDATE counter SET n = n + 1 RETURNING n").fetchone()
        return int(n)

    def replace(self, key: int, n: int) -> str:
        return f"REPLACE INTO items VALUES ({key}, {n})"

    def kill(self) -> bool:
        return False


class Postgres:
    table = "public.items"

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.address = server.create_database(f"killed_{uuid.uuid4().hex[:8]}")

    def connect(self) -> Any:
        return psycopg.connect(self.address, autocommit=True)

    def count(self, connection: Any) -> int:
        (n,) = connection.execute("UPDATE counter SET n = n + 1 RETURNING n").fetchone()
        return int(n)

    def replace(self, key: int, n: int) -> str:
        return f"INSERT INTO items VALUES ({key}, {n}) ON CONFLICT (id) DO UPDATE SET n = {n}"

    def kill(self) -> bool:
        # Each connection has a process of its own, which outlives the server for a moment, and keeps it from starting.
        os.kill(self._server.pid, signal.SIGSTOP)  # no further process begins
        children = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children")
        processes = [int(pid) for pid in children.read_text().split()] if children.exists() else []
        for pid in (self._server.pid, *processes):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline_s = time.monotonic() + 30
        while any(Path(f"/proc/{pid}").exists() for pid in processes):
            assert time.monotonic() < deadline_s, processes
            time.sleep(0.01)
        self._server.kill()
        self._server.start()
        return True


class MariadbConnection:
    """As the connections of the other drivers have it."""

    def __init__(self, **login: Any) -> None:
        self._driver: Any = pymysql.connect(**login, autocommit=True)

    def execute(self, statement: str) -> Any:
        cursor = self._driver.cursor()
        cursor.execute(statement)
        return cursor

    def close(self) -> None:
        self._driver.close()


class Mariadb:
    def __init__(self, server: MariadbServer) -> None:
        self._server = server
        self._name = f"killed_{uuid.uuid4().hex[:8]}"
        self.address = server.create_database(self._name)
        self.table = f"{self._name}.items"

    def connect(self) -> Any:
        return MariadbConnection(**self._server.login, database=self._name)

    def count(self, connection: Any) -> int:
        connection.execute("UPDATE counter SET n = LAST_INSERT_ID(n + 1)")
        (n,) = connection.execute("SELECT LAST_INSERT_ID()").fetchone()
        return int(n)

    def replace(self, key: int, n: int) -> str:
        return f"INSERT INTO items VALUES ({key}, {n}) ON DUPLICATE KEY UPDATE n = {n}"

    def kill(self) -> bool:
        self._server.kill()
        self._server.start()
        return True


POSITION = ("change", "lsn", "txId", "file", "pos", "row")
"""of a change in the log of its database: the fields of `source`, by the kind of database"""

AWAY = (psycopg.OperationalError, pymysql.err.OperationalError, pymysql.err.InterfaceError)


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
        while not self._stopping.is_set():
            with contextlib.suppress(*AWAY):
                self._write_until_killed(choices)

    def _write_until_killed(self, choices: random.Random) -> None:
        connection = self._database.connect()
        while not self._stopping.wait(0.005):
            connection.execute("BEGIN")
            for _ in range(choices.randint(1, 5)):
                n = self._database.count(connection)
                key = choices.randrange(KEYS)
                delete = f"DELETE FROM items WHERE id = {key}"
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
    """The changes of each key follow each other without a gap and without a repeat, up to the row in the table.

    If the snapshot was interrupted, changes come before the rest of its rows. Of a row that was not read yet, the row
    before is not known.
    """
    last_read = max(number for number, (_, value) in enumerate(events) if value["op"] == "r")
    rows: dict[int, Any] = {}
    positions: list[tuple[Any, ...]] = []
    for number, (key, value) in enumerate(events):
        is_known = key["id"] in rows or number > last_read
        before = value["after"] if value["op"] == "r" else value["before"]
        assert not is_known or rows.get(key["id"]) == before, f"the change before {value} is missing"
        rows[key["id"]] = value["after"]
        if value["op"] != "r":
            positions.append(tuple(value["source"].get(name) for name in POSITION))
    assert len(set(positions)) == len(positions), "a change is there twice"
    connection = database.connect()
    table = {id: {"id": id, "n": n} for id, n in connection.execute("SELECT id, n FROM items")}
    connection.close()
    assert {key: row for key, row in rows.items() if row is not None} == table


def wait_for_events(folder: CaptureFolder, process: subprocess.Popen[bytes]) -> None:
    """A start takes longer than a round if the machine is busy."""
    deadline_s = time.monotonic() + 60
    while folder.status().pid != process.pid or not folder.status().events:
        assert process.poll() is None, "the runner has ended"
        assert time.monotonic() < deadline_s, folder.status()
        time.sleep(0.05)


def kill_in_rounds(tmp_path: Path, database: Database, *, rounds: int) -> None:
    moments = random.Random(SEED)
    data_dir = tmp_path / "data"
    connection = database.connect()
    connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, n INTEGER)")
    connection.execute("CREATE TABLE counter (id INTEGER PRIMARY KEY, n INTEGER)")
    connection.execute("INSERT INTO counter VALUES (1, 0)")
    for key in range(KEYS):
        connection.execute(f"INSERT INTO items VALUES ({key}, 0)")
    if isinstance(database, Postgres):
        connection.execute("ALTER TABLE items REPLICA IDENTITY FULL")  # so that changes have their old rows
    connection.close()
    name = f"killed{uuid.uuid4().hex[:8]}"
    capture = Capture(name=name, address=database.address, tables=(database.table,), keep="all", partitions=1)
    folder = Captures(data_dir).add(capture)
    with BrokerProcess(tmp_path / "broker") as broker:
        with Writers(database, 2):
            for number in range(rounds):
                with runner(name, data_dir, broker.bootstrap) as process:
                    if number % 2 == 1:
                        wait_for_events(folder, process)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(moments.uniform(0.3, RUNS_S_MAX))
                    if number % 3 == 2:
                        broker.kill()
                        broker.start()
                    elif number % 3 == 1 and database.kill():
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            process.wait(moments.uniform(0.3, RUNS_S_MAX))
        CaptureRun(capture, folder, Cluster(broker.bootstrap, timeout_s=30), once=True).run()
        events = committed_records(broker.bootstrap, f"{name}.{database.table}")
    assert len(events) > KEYS + 50 * rounds, "the writers did not get far enough to test anything"
    check(events, database)
    source = capture.open_source()
    source.remove()
    source.close()


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Servers of their own: other tests do not want theirs to be killed."""
    if request.param == "sqlite":
        yield Sqlite(tmp_path / "shop.db")
    elif request.param == "postgres":
        require_postgres()
        with PostgresServer(settings={"wal_level": "logical", "fsync": "off"}) as server:
            yield Postgres(server)
    else:
        require_mariadb()
        with MariadbServer() as mariadb:
            yield Mariadb(mariadb)


def test_capture_killed_with_its_broker_and_its_database_has_every_change_once(
    tmp_path: Path, database: Database
) -> None:
    kill_in_rounds(tmp_path, database, rounds=3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_capture_killed_at_thirty_random_moments_has_every_change_once(
    tmp_path: Path, database: Database
) -> None:
    kill_in_rounds(tmp_path, database, rounds=30)
