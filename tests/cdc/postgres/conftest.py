"""One PostgreSQL with logical replication for these tests, and one database for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from headrace.cdc.postgres.source import PostgresSource
from headrace.testing.postgres import PostgresServer
from headrace.testing.requirements import require_postgres
from tests.cdc.postgres.steps import LOGICAL, Database

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="session")
def logical_postgres() -> Iterator[PostgresServer]:
    require_postgres()
    with PostgresServer(settings=LOGICAL) as server:
        yield server


_numbers = iter(range(1_000_000))


@pytest.fixture
def database(logical_postgres: PostgresServer) -> Iterator[Database]:
    """A new database. Slots are names of the whole server, so that the capture has the name of the database."""
    name = f"shop{next(_numbers)}"
    address = logical_postgres.create_database(name)
    with psycopg.connect(address, autocommit=True) as connection:
        found = Database(name=name, address=address, connection=connection)
        yield found
        found.drop_slots()


@pytest.fixture
def open_source(database: Database) -> Iterator[Callable[..., PostgresSource]]:
    opened: list[PostgresSource] = []

    def open_one(*tables: str, **settings: Any) -> PostgresSource:
        opened.append(PostgresSource(database.name, database.address, tables or ("*.*",), **settings))
        return opened[-1]

    yield open_one
    for source in opened:
        source.close()
