"""A database of the one MariaDB for each test, and sources that are closed after it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.cdc.mysql.source import MysqlSource
from headrace.testing.mariadb import MariadbServer
from tests.cdc.mysql.steps import Database


@pytest.fixture
def database(mariadb: MariadbServer) -> Iterator[Database]:
    found = Database(mariadb, f"crm{uuid.uuid4().hex[:10]}")
    yield found
    found.close()


@pytest.fixture
def open_source(database: Database) -> Iterator[Callable[..., MysqlSource]]:
    opened: list[MysqlSource] = []

    def open_one(*tables: str, address: str | None = None, **settings: Any) -> MysqlSource:
        opened.append(MysqlSource(database.name, address or database.address, tables or ("*",), **settings))
        return opened[-1]

    yield open_one
    for source in opened:
        source.close()
