"""What happens to databases and brokers under a capture: it fails with the remedy, or goes on and loses nothing."""

from __future__ import annotations

import contextlib
import logging
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from headrace.cdc import runner as module
from headrace.cdc.capture import Capture, CaptureFolder, Captures, CaptureState
from headrace.cdc.errors import BadCapture
from headrace.cdc.runner import CaptureRun
from headrace.cdc.schemas import schema_of
from headrace.kafka.cluster import Cluster
from headrace.testing.mariadb import MariadbServer
from headrace.testing.postgres import PostgresServer
from headrace.testing.requirements import require_postgres
from tests.cdc.conftest import committed_records
from tests.cdc.postgres.steps import LOGICAL
from tests.faults.full_disk_broker import FullDiskBroker

WAIT_S = 60.0


class Shop(Struct, frozen=True, kw_only=True):
    """A database, and a capture of all its tables."""

    capture: Capture
    folder: CaptureFolder
    cluster: Cluster
    connect: Callable[[], contextlib.AbstractContextManager[Any]]
    prefix: str
    """of the names of topics: the capture, and the schema if there is one"""

    def run(self, *statements: str) -> None:
        """In one transaction."""
        with self.connect() as connection:
            for statement in statements:
                connection.cursor().execute(statement)
            connection.commit()

    def capture_once(self) -> None:
        CaptureRun(self.capture, self.folder, self.cluster, once=True).run()

    @contextlib.contextmanager
    def capturing(self) -> Iterator[list[Exception]]:
        """A running capture; yields the error that it ended with, if any."""
        is_stopping = threading.Event()
        errors: list[Exception] = []

        def run() -> None:
            try:
                CaptureRun(self.capture, self.folder, self.cluster, is_stopping=is_stopping.is_set).run()
            except Exception as error:
                errors.append(error)

        running = threading.Thread(target=run)
        running.start()
        try:
            wait_until(lambda: self.folder.status().state is CaptureState.STREAMING)
            yield errors
        finally:
            is_stopping.set()
            running.join(WAIT_S)
            assert not running.is_alive()

    def copy(self, table: str) -> dict[Any, Any]:
        """The last value of each key in the topic of the table."""
        rows: dict[Any, Any] = {}
        if (topic := f"{self.prefix}.{table}") not in self.cluster.topics():
            return rows
        for key, value in committed_records(self.cluster.bootstrap, topic):
            rows[key["id"]] = value and value["after"]
        return {key: row for key, row in rows.items() if row is not None}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def sqlite_shop(tmp_path: Path, name: str, cluster: Cluster) -> Shop:
    path = tmp_path / "shop.db"
    sqlite3.connect(path).execute("PRAGMA journal_mode = WAL").close()
    capture = Capture(name=name, address=f"sqlite:///{path}", partitions=1)
    return Shop(
        capture=capture,
        folder=Captures(tmp_path / "data").add(capture),
        cluster=cluster,
        connect=lambda: contextlib.closing(sqlite3.connect(path, timeout=30)),
        prefix=name,
    )


def postgres_shop(server: PostgresServer, tmp_path: Path, name: str, cluster: Cluster) -> Shop:
    import psycopg

    address = server.create_database(name)
    capture = Capture(name=name, address=address, partitions=1)
    return Shop(
        capture=capture,
        folder=Captures(tmp_path / "data").add(capture),
        cluster=cluster,
        connect=lambda: contextlib.closing(psycopg.connect(address)),
        prefix=f"{name}.public",
    )


def mariadb_shop(server: MariadbServer, tmp_path: Path, name: str, cluster: Cluster) -> Shop:
    import pymysql

    capture = Capture(name=name, address=server.create_database(name), partitions=1)
    # Names in double quotes, as in the SQL of the other databases.
    settings: dict[str, Any] = {**server.login, "database": name, "init_command": "SET sql_mode = 'ANSI'"}
    return Shop(
        capture=capture,
        folder=Captures(tmp_path / "data").add(capture),
        cluster=cluster,
        connect=lambda: contextlib.closing(pymysql.connect(**settings)),
        prefix=f"{name}.{name}",
    )


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, name: str, cluster: Cluster) -> Iterator[Shop]:
    """With a table of two rows, which the capture has read."""
    if request.param == "sqlite":
        found = sqlite_shop(tmp_path, name, cluster)
    elif request.param == "mariadb":
        found = mariadb_shop(request.getfixturevalue("mariadb"), tmp_path, name, cluster)
    else:
        found = postgres_shop(request.getfixturevalue("postgres"), tmp_path, name, cluster)
    found.run("CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(20))")
    found.run("INSERT INTO users VALUES (1, 'ann'), (2, 'bob')")
    found.capture_once()
    yield found
    source = found.capture.open_source()
    source.remove()
    source.close()


ALL = {1: {"id": 1, "name": "ann"}, 2: {"id": 2, "name": "bob"}, 3: {"id": 3, "name": "cid"}}


def test_table_renamed_while_it_is_captured_is_read_under_its_new_name(shop: Shop) -> None:
    with shop.capturing() as errors:
        shop.run("ALTER TABLE users RENAME TO people")
        shop.run("INSERT INTO people VALUES (3, 'cid')")
        wait_until(lambda: bool(errors) or shop.copy("people") == ALL)
    assert errors == []


def test_table_renamed_while_the_capture_is_stopped_is_read_under_its_new_name(shop: Shop) -> None:
    shop.run("ALTER TABLE users RENAME TO people")
    shop.run("INSERT INTO people VALUES (3, 'cid')")
    shop.capture_once()
    shop.capture_once()
    assert shop.copy("people") == ALL


def test_capture_that_is_checked_by_another_process_goes_on(shop: Shop) -> None:
    with shop.capturing() as errors:
        shop.run("INSERT INTO users VALUES (3, 'cid')")
        wait_until(lambda: shop.copy("users") == ALL)
        source = shop.capture.open_source()
        assert len(source.check()) == 1
        source.close()
        shop.run("DELETE FROM users")
        wait_until(lambda: bool(errors) or shop.copy("users") == {})
    assert errors == []


def test_table_that_is_new_and_empty_is_not_read_twice(shop: Shop) -> None:
    shop.run("CREATE TABLE tags (id INTEGER PRIMARY KEY)")
    shop.capture_once()
    shop.run("INSERT INTO tags VALUES (1)")
    shop.capture_once()
    shop.capture_once()
    ops = [value["op"] for _, value in committed_records(shop.cluster.bootstrap, f"{shop.prefix}.tags")]
    assert ops == ["c"]


def test_table_of_any_name_has_a_topic_and_its_schema(shop: Shop) -> None:
    table = "quo\"ted.Ünï it's"
    quoted = '"' + table.replace('"', '""') + '"'
    shop.run(f"CREATE TABLE {quoted} (id INTEGER PRIMARY KEY, {quoted} VARCHAR(20))")
    shop.run(f"INSERT INTO {quoted} VALUES (1, 'a')")
    shop.capture_once()
    topic = "".join(each if each.isascii() and (each.isalnum() or each == ".") else "_" for each in table)
    assert shop.copy(topic) == {1: {"id": 1, table: "a"}}
    schema = schema_of(shop.cluster, f"{shop.prefix}.{topic}")
    assert schema is not None
    assert [column.name for column in schema.table.columns] == ["id", table]


@pytest.mark.parametrize("shop", ["sqlite", "postgres"], indirect=True)
def test_what_the_capture_created_and_somebody_dropped_is_an_error_with_the_remedy(shop: Shop) -> None:
    shop.run("INSERT INTO users VALUES (3, 'cid')")
    shop.capture_once()
    if shop.capture.connector == "sqlite":
        shop.run(f'DROP TABLE "headrace_{shop.capture.name}_changes"')
    else:
        shop.run(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            " WHERE database = current_database()"
        )
    with pytest.raises(BadCapture, match="dropped") as rejected:
        shop.capture_once()
    assert "add it again" in rejected.value.hint
    assert shop.folder.status().state is CaptureState.FAILED
    assert "dropped" in shop.folder.status().error


def test_database_that_is_away_for_long_is_retried_with_growing_pauses_up_to_a_bound(
    tmp_path: Path,
    name: str,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    require_postgres()
    monkeypatch.setattr(module, "RETRY_S_MIN", 0.05)
    monkeypatch.setattr(module, "RETRY_S_MAX", 0.2)
    with PostgresServer(settings=LOGICAL) as server:
        shop = postgres_shop(server, tmp_path, name, cluster)
        shop.run("CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(20))")
        shop.run("INSERT INTO users VALUES (1, 'ann')")
        with shop.capturing() as errors, caplog.at_level(logging.WARNING, "headrace.cdc"):
            wait_until(lambda: bool(shop.copy("users")))
            server.stop()
            wait_until(lambda: len(pauses(caplog)) > 5)
            assert shop.folder.status().state is CaptureState.RETRYING
            assert re.search(r"postgresql://127\.0\.0\.1:\d+", shop.folder.status().error)
            server.start()
            shop.run("INSERT INTO users VALUES (2, 'bob')")
            wait_until(lambda: len(shop.copy("users")) == 2)
            wait_until(lambda: shop.folder.status().state is CaptureState.STREAMING)
            assert shop.folder.status().error == ""
        assert errors == []
    assert pauses(caplog)[:5] == [0.1, 0.1, 0.2, 0.2, 0.2], "0.05 s is shown as 0.1 s"


def pauses(caplog: pytest.LogCaptureFixture) -> list[float]:
    """The pauses before retries, as they are logged."""
    texts = [record.getMessage() for record in caplog.records]
    return [float(found[1]) for text in texts if (found := re.search(r"next try is in ([\d.]+) s", text))]


@pytest.fixture
def full_disk_broker(tmp_path: Path) -> Iterator[FullDiskBroker]:
    with FullDiskBroker(tmp_path / "broker") as running:
        yield running


def test_broker_with_a_full_disk_is_shown_and_the_capture_continues_when_there_is_room(
    full_disk_broker: FullDiskBroker, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S_MIN", 0.05)
    monkeypatch.setattr(module, "RETRY_S_MAX", 0.2)
    monkeypatch.setattr("headrace.cdc.publisher.TIMEOUT_S", 2.0)
    shop = sqlite_shop(tmp_path, name, Cluster(full_disk_broker.bootstrap, timeout_s=10))
    shop.run("CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(20))")
    shop.run("INSERT INTO users VALUES (1, 'ann')")
    with shop.capturing() as errors:
        wait_until(lambda: bool(shop.copy("users")))
        full_disk_broker.fill(0)
        shop.run("INSERT INTO users VALUES (2, 'bob')")
        wait_until(lambda: shop.folder.status().state is CaptureState.RETRYING)
        assert "disk" in shop.folder.status().error
        full_disk_broker.empty()
        wait_until(lambda: len(shop.copy("users")) == 2)
    assert errors == []
    assert [value["op"] for _, value in committed_records(full_disk_broker.bootstrap, f"{name}.users")] == [
        "r",
        "c",
    ]


def test_record_that_the_broker_rejects_as_too_large_ends_the_capture_with_the_remedy(shop: Shop) -> None:
    topic = f"{shop.prefix}.notes"
    shop.cluster.create_topic(topic, partitions=1, config={"max.message.bytes": "10000"})
    shop.run("CREATE TABLE notes (id INTEGER PRIMARY KEY, name TEXT)")
    shop.run(f"INSERT INTO notes VALUES (1, '{'x' * 50_000}')")
    with pytest.raises(BadCapture, match=r"(?i)too large|size") as rejected:
        shop.capture_once()
    assert "max.message.bytes" in rejected.value.hint
    assert shop.folder.status().state is CaptureState.FAILED
    # MariaDB has the row of the new table twice, as a change and as a row that is read, which may be in one batch.
    shop.cluster.alter_configs("topic", topic, {"max.message.bytes": "200000"})
    shop.capture_once()
    assert len(shop.copy("notes")[1]["name"]) == 50_000
