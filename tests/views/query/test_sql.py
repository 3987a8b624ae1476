from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import date
from typing import Any

import duckdb
import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.testing import PostgresServer
from headrace.views.errors import BadView
from headrace.views.query.kinds import Kind
from headrace.views.query.rows import selected
from headrace.views.query.sql import DUCKDB, POSTGRESQL, SQLITE, Dialect, rendered
from headrace.views.query.text import parse
from headrace.views.selection import Selection
from tests.views.query.conditions import COLUMNS, CONDITION, KEY, ORDER, ROWS, selection_text

KINDS = {
    "id": Kind.INTEGER,
    "city": Kind.TEXT,
    "users": Kind.INTEGER,
    "rate": Kind.DOUBLE,
    "is_open": Kind.BOOLEAN,
    "opened": Kind.DATE,
}
TABLE = (
    "CREATE {} TABLE cities "
    "(id BIGINT PRIMARY KEY, city TEXT, users INTEGER, rate {}, is_open BOOLEAN, opened DATE)"
)
INSERT = "INSERT INTO cities VALUES ({})"


class Databases:
    """The same table in each database."""

    def __init__(self, address: str) -> None:
        self.sqlite = sqlite3.connect(":memory:")
        self.sqlite.execute("PRAGMA case_sensitive_like = ON")
        self.sqlite.execute(TABLE.format("", "DOUBLE"))
        self.duckdb = duckdb.connect()
        self.postgres = psycopg.connect(address, autocommit=True)
        self.postgres.execute(TABLE.format("TEMP", "double precision").encode())

    def fill(self, rows: list[dict[str, Any]]) -> None:
        values = [tuple(row[name] for name in COLUMNS) for row in rows]
        self.sqlite.execute("DELETE FROM cities")
        self.sqlite.executemany(INSERT.format("?, ?, ?, ?, ?, ?"), values)
        # A new table: after DELETE and INSERT of the same key, DuckDB 2.0.0 sometimes misses the row.
        self.duckdb.execute(TABLE.format("OR REPLACE", "DOUBLE"))
        if values:
            self.duckdb.executemany(INSERT.format("?, ?, ?, ?, ?, ?"), values)
        self.postgres.execute("DELETE FROM cities")
        with self.postgres.cursor() as cursor:
            cursor.executemany(INSERT.format("%s, %s, %s, %s, %s, %s").encode(), values)

    def ids(self, selection: Selection) -> dict[str, list[int]]:
        found = {}
        connections: list[tuple[Dialect, Any]] = [
            (SQLITE, self.sqlite),
            (POSTGRESQL, self.postgres),
            (DUCKDB, self.duckdb),
        ]
        for dialect, connection in connections:
            sql = rendered(selection, dialect, KINDS)
            rows = connection.execute(f"SELECT id FROM cities {sql.text}", sql.values).fetchall()
            found[dialect.name] = [row[0] for row in rows]
        return found

    def close(self) -> None:
        self.sqlite.close()
        self.duckdb.close()
        self.postgres.close()


@pytest.fixture(scope="module")
def databases(postgres: PostgresServer) -> Iterator[Databases]:
    databases = Databases(postgres.create_database("selections"))
    yield databases
    databases.close()


def as_python(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "opened": row["opened"] and date.fromisoformat(row["opened"])}


@settings(max_examples=60)
@given(rows=ROWS, condition=st.none() | CONDITION, order=ORDER, limit=st.integers(1, 15))
@example(
    rows=[dict(zip(COLUMNS, (1, "é", 1, 0.5, True, "2026-01-01"), strict=True))],
    condition="upper(city) = 'É' OR users / 0 > 1 OR users % 0 = 1",
    order=[],
    limit=1,
)
def test_databases_and_python_agree_on_every_selection(
    databases: Databases,
    rows: list[dict[str, Any]],
    condition: str | None,
    order: list[tuple[str, str]],
    limit: int,
) -> None:
    databases.fill(rows)
    selection = parse(selection_text(condition, order, limit), columns=COLUMNS, key=KEY)
    found = databases.ids(selection)
    in_python = [row["id"] for row in selected(map(as_python, rows), selection)]
    assert found == dict.fromkeys(found, in_python)


def test_postgresql_orders_text_by_code_points_whatever_its_locale() -> None:
    """As all others do. It compares for equality as it is, so that indexes are used."""
    where = "WHERE city > 'a' AND city BETWEEN 'a' AND 'b' AND city = 'b' ORDER BY city"
    sql = rendered(parse(where, columns=COLUMNS, key=KEY), POSTGRESQL, KINDS)
    assert sql.text.count('"city" COLLATE "C"') == 3
    assert '("city" = %s)' in sql.text
    assert sql.values == ("a", "a", "b", "b")


def test_values_are_parameters_and_never_part_of_the_statement() -> None:
    evil = "x'; DROP TABLE cities; --"
    selection = parse("WHERE city = '" + evil.replace("'", "''") + "'", columns=COLUMNS, key=KEY)
    for dialect in (SQLITE, POSTGRESQL, DUCKDB):
        sql = rendered(selection, dialect, KINDS)
        assert sql.values == (evil,)
        assert "DROP" not in sql.text


def test_names_of_columns_are_quoted() -> None:
    name = 'a "b" 100%'
    selection = parse('WHERE "a ""b"" 100%" = 1', columns=[name], key=[name])
    assert '"a ""b"" 100%"' in rendered(selection, SQLITE, {}).text
    assert '"a ""b"" 100%%"' in rendered(selection, POSTGRESQL, {}).text


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Kind.TEXT, "5"),
        (Kind.INTEGER, "'5'"),
        (Kind.BOOLEAN, "1"),
        (Kind.DOUBLE, "TRUE"),
        (Kind.DATE, "'soon'"),
    ],
)
def test_value_of_another_type_is_rejected_before_a_database_converts_it(kind: Kind, value: str) -> None:
    selection = parse(f"WHERE city = {value}", columns=COLUMNS, key=KEY)
    with pytest.raises(BadView, match=r"can't be compared|is not a time"):
        rendered(selection, SQLITE, {"city": kind})
