"""The `Table` sink in SQLite: files that are locked or damaged, names, and the types of existing columns."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks import table_sqlite
from headrace.pipeline.sinks.table import Table
from headrace.pipeline.sinks.table_schema import Column, Kind
from headrace.pipeline.sinks.table_sqlite import EXACT_DIGITS, SqliteStore
from tests.pipeline.sinks.databases import Batches, Sqlite, schema_of

SCHEMA = schema_of(id="string", n="long")


def test_locked_file_is_unavailable_and_the_batch_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_sqlite, "BUSY_TIMEOUT_S", 0.1)
    database = Sqlite(tmp_path / "views.db")
    with closing(Batches(Table("t", key="id", at=database.at), SCHEMA)) as table:
        with closing(sqlite3.connect(database.at)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(SinkUnavailable, match="locked"):
                table.write(("a", 1))
        assert table.write_again(("a", 1)) == 1
    assert database.query("SELECT * FROM t") == [("a", 1)]


def test_file_that_is_no_database_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "views.db").write_text("not a database " * 100)
    with pytest.raises(BadSink, match="not a database"):
        Table("t", key="id", at=tmp_path / "views.db").open("job", SCHEMA)


def test_folder_that_is_missing_is_created(tmp_path: Path) -> None:
    database = Sqlite(tmp_path / "a" / "b" / "views.db")
    with closing(Batches(Table("t", key="id", at=database.at), SCHEMA)) as table:
        table.write(("a", 1))
    assert database.query("SELECT * FROM t") == [("a", 1)]


def test_name_with_a_dot_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(BadSink, match=r"SQLite has no schemas, and table shop\.t has a dot"):
        Table("shop.t", key="id", at=tmp_path / "views.db").open("job", SCHEMA)


@pytest.mark.parametrize("unique", ["PRIMARY KEY", "UNIQUE"])
def test_names_of_columns_are_case_insensitive(tmp_path: Path, unique: str) -> None:
    database = Sqlite(tmp_path / "views.db")
    database.execute(f"CREATE TABLE t (ID TEXT {unique}, N BIGINT)")
    with closing(Batches(Table("t", key="id", at=database.at), SCHEMA)) as table:
        table.write(("a", 1))
        table.write(("a", 2))
    assert database.query("SELECT * FROM t") == [("a", 2)]


@pytest.mark.parametrize("index", ["(id) WHERE n > 0", "(lower(id))", "(id, n)"])
def test_other_unique_indexes_are_no_key(tmp_path: Path, index: str) -> None:
    database = Sqlite(tmp_path / "views.db")
    database.execute("CREATE TABLE t (id TEXT, n BIGINT)", f"CREATE UNIQUE INDEX i ON t {index}")
    with pytest.raises(BadSink, match="no primary key or unique index on id"):
        Table("t", key="id", at=database.at).open("job", SCHEMA)


@pytest.mark.parametrize(
    ("kind", "existing", "holds"),
    [
        (Kind.BIGINT, "INT", True),
        (Kind.BIGINT, "text", False),
        (Kind.BIGINT, "", True),
        (Kind.TEXT, "any", True),
        (Kind.TEXT, "varchar(9)", True),
        (Kind.TEXT, "BLOB", False),
        (Kind.DOUBLE, "real", True),
        (Kind.DOUBLE, "INTEGER", False),
        (Kind.JSON, "TEXT", True),
        (Kind.DATE, "TEXT", False),
        (Kind.TIMESTAMP, "TIMESTAMP", True),
    ],
)
def test_existing_column_holds_the_values_as_they_are(kind: Kind, existing: str, holds: bool) -> None:
    assert SqliteStore.can_hold(existing, Column(name="c", kind=kind)) is holds


@pytest.mark.parametrize(("precision", "holds"), [(EXACT_DIGITS, True), (EXACT_DIGITS + 1, False)])
def test_number_of_sqlite_holds_fifteen_digits(precision: int, holds: bool) -> None:
    column = Column(name="c", kind=Kind.DECIMAL, precision=precision, scale=2)
    assert SqliteStore.can_hold("NUMERIC", column) is holds
    assert ("TEXT" in SqliteStore.sql_type(column)) is not holds
