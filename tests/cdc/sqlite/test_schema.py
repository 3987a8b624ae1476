"""Tables of a SQLite file as capture sees them."""

from __future__ import annotations

import sqlite3

import pytest

from headrace.cdc.errors import BadCapture
from headrace.cdc.sqlite import schema
from headrace.cdc.sqlite.schema import UniqueIndex, captured_tables


@pytest.fixture
def db() -> sqlite3.Connection:
    return sqlite3.connect(":memory:")


def test_columns_keys_and_types_are_read(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t (b TEXT, a INT, r REAL, x BLOB, d DECIMAL, u, PRIMARY KEY (a, b))")
    (found,) = captured_tables(db, ["*"])
    assert found.table.key == ("a", "b")
    assert {each.name: each.type for each in found.table.columns} == {
        "b": "string",
        "a": "int64",
        "r": "double",
        "x": "bytes",
        "d": "any",
        "u": "any",
    }
    assert [each.name for each in found.table.columns if not each.optional] == ["b", "a"]


def test_unique_indexes_are_read_with_collations_and_conditions(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE UNIQUE, b, c)")
    db.execute("CREATE UNIQUE INDEX partial ON t (b, c) WHERE c > 0")
    db.execute("CREATE INDEX plain ON t (b)")
    (found,) = captured_tables(db, ["*"])
    assert set(found.unique) == {
        UniqueIndex(columns=(("id", "BINARY"),)),
        UniqueIndex(columns=(("a", "NOCASE"),)),
        UniqueIndex(columns=(("b", "BINARY"), ("c", "BINARY")), where="c > 0"),
    }


def test_views_virtual_tables_and_own_tables_are_left_out(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    db.execute("CREATE TABLE headrace_x_changes (id INTEGER PRIMARY KEY)")
    db.execute("CREATE VIEW v AS SELECT * FROM t")
    db.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    assert [each.name for each in captured_tables(db, ["*"])] == ["t"]


def test_unique_index_on_an_expression_is_rejected(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
    db.execute("CREATE UNIQUE INDEX lowered ON t (lower(a))")
    with pytest.raises(BadCapture, match="unique index lowered on an expression"):
        captured_tables(db, ["*"])


def test_table_with_too_many_columns_is_rejected(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "COLUMNS_MAX", 2)
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)")
    with pytest.raises(BadCapture, match="3 columns; at most 2"):
        captured_tables(db, ["*"])
