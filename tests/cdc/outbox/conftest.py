"""An outbox in each kind of database, and a capture that publishes it."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from msgspec import Struct
from msgspec.structs import replace

from headrace.cdc.capture import Capture, CaptureFolder, Captures
from headrace.cdc.outbox import Outbox, create_statement
from headrace.cdc.runner import CaptureRun
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from headrace.testing.mariadb import MariadbServer
from headrace.testing.postgres import PostgresServer


class Database(Struct, frozen=True, kw_only=True):
    """A database with an empty outbox, and `connect` for a DB-API connection that is no autocommit."""

    address: str
    table: str
    connect: Callable[[], contextlib.AbstractContextManager[Any]]

    def run(self, *statements: str) -> None:
        """In one transaction."""
        with self.connect() as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            cursor = connection.cursor()
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]

    def insert(self, *events: tuple[int, str | None, str, str], delete: bool = False) -> None:
        """Rows (number, aggregate type, aggregate, payload) in one transaction, which may delete them itself."""
        values = ", ".join(
            f"('{event_id(number)}', {_literal(kind)}, '{aggregate}', 'changed', {_literal(payload)})"
            for number, kind, aggregate, payload in events
        )
        statements = [f"INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES {values}"]
        self.run(*statements, *(["DELETE FROM outbox"] if delete else []))


def event_id(number: int) -> str:
    return str(uuid.UUID(int=number))


def _literal(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def _sqlite(request: pytest.FixtureRequest) -> Database:
    path: Path = request.getfixturevalue("tmp_path") / "shop.db"
    sqlite3.connect(path).execute("PRAGMA journal_mode = WAL").close()
    database = Database(
        address=f"sqlite:///{path}",
        table="outbox",
        connect=lambda: contextlib.closing(sqlite3.connect(path, timeout=30)),
    )
    database.run(_nullable(create_statement("sqlite")))
    return database


def _postgres(request: pytest.FixtureRequest) -> Database:
    import psycopg

    server: PostgresServer = request.getfixturevalue("postgres")
    address = server.create_database(f"outbox_{uuid.uuid4().hex[:12]}")
    database = Database(
        address=address,
        table="public.outbox",
        connect=lambda: contextlib.closing(psycopg.connect(address)),
    )
    database.run(_nullable(create_statement("postgresql")))
    return database


def _nullable(statement: str) -> str:
    """So that a test can insert a row without an aggregate type."""
    return re.sub(r"(aggregatetype \S+) NOT NULL", r"\1", statement)


def _mariadb(request: pytest.FixtureRequest) -> Database:
    import pymysql

    server: MariadbServer = request.getfixturevalue("mariadb")
    name = f"outbox_{uuid.uuid4().hex[:12]}"
    address = server.create_database(name)
    database = Database(
        address=address,
        table=f"{name}.outbox",
        connect=lambda: contextlib.closing(pymysql.connect(**server.login, database=name)),
    )
    database.run(_nullable(create_statement("mysql")))
    return database


DATABASES: dict[str, Callable[[pytest.FixtureRequest], Database]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "mariadb": _mariadb,
}


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> Database:
    return DATABASES[request.param](request)


class Shop(Struct, frozen=True, kw_only=True):
    """A capture of the outbox; its topics begin with its name."""

    database: Database
    capture: Capture
    folder: CaptureFolder
    cluster: Cluster

    def run(self, **outbox: Any) -> CaptureRun:
        """Publish what is committed so far, with other settings of the outbox if given."""
        assert self.capture.outbox is not None
        capture = replace(self.capture, outbox=replace(self.capture.outbox, **outbox))
        run = CaptureRun(capture, self.folder, self.cluster, once=True)
        run.run()
        return run

    def topic(self, kind: str) -> str:
        return f"events-{self.capture.name}.{kind}"

    def events(self, kind: str) -> list[Message]:
        return list(read_committed(self.cluster, self.topic(kind)))

    def values(self, kind: str) -> list[Any]:
        return [message.value() for message in self.events(kind)]

    @property
    def letters(self) -> str:
        return f"dlq.cdc.{self.capture.name}"

    @property
    def left(self) -> int:
        (count,) = self.database.rows("SELECT count(*) FROM outbox")[0]
        return int(count)


@pytest.fixture
def shop(database: Database, name: str, cluster: Cluster, tmp_path: Path) -> Iterator[Shop]:
    outbox = Outbox(table=database.table, topic=f"events-{name}.{{aggregatetype}}")
    capture = Capture(name=name, address=database.address, partitions=1, outbox=outbox)
    folder = Captures(tmp_path / "data").add(capture)
    yield Shop(database=database, capture=capture, folder=folder, cluster=cluster)
    source = capture.open_source()
    source.remove()
    source.close()
