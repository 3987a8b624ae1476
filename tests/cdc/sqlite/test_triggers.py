"""Triggers record every change, also the rows that REPLACE removes without a delete trigger."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cdc.sqlite.schema import captured_tables
from headrace.cdc.sqlite.triggers import Names, create_tables, create_triggers, widen_tables

NAMES = Names("test")


def captured(*definitions: str, recursive: bool = False) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute(f"PRAGMA recursive_triggers = {int(recursive)}")
    for each in definitions:
        db.execute(each)
    for statement in create_tables(NAMES):
        db.execute(statement)
    for number, table in enumerate(captured_tables(db, ["*"])):
        existing = [row[1] for row in db.execute(f"PRAGMA table_info({NAMES.changes})")]
        for statement in widen_tables(NAMES, existing, len(table.table.columns)):
            db.execute(statement)
        for statement in create_triggers(NAMES, number, table):
            db.execute(statement)
    return db


def recorded(db: sqlite3.Connection, columns: int) -> list[tuple[Any, ...]]:
    """(op, old values, new values)"""
    values = ", ".join(f"{side}{number}" for side in "on" for number in range(columns))
    rows = db.execute(f"SELECT op, {values} FROM {NAMES.changes} ORDER BY id").fetchall()
    return [(row[0], row[1 : columns + 1], row[columns + 1 :]) for row in rows]


NOTES = "CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT UNIQUE)"
NONE = (None, None)


def test_inserts_updates_and_deletes_are_recorded_with_old_and_new_values() -> None:
    db = captured(NOTES)
    db.execute("INSERT INTO notes VALUES (1, 'a')")
    db.execute("UPDATE notes SET title = 'b'")
    db.execute("DELETE FROM notes")
    assert recorded(db, 2) == [("c", NONE, (1, "a")), ("u", (1, "a"), (1, "b")), ("d", (1, "b"), NONE)]


def test_values_keep_their_type() -> None:
    db = captured("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
    values = [1, 2**62, 0.1, 1e300, "text", b"\x00\xff", None, 0.1 + 0.2]
    for number, value in enumerate(values):
        db.execute("INSERT INTO t VALUES (?, ?)", (number, value))
    assert [row[2][1] for row in recorded(db, 2)] == values


@pytest.mark.parametrize("recursive", [False, True])
def test_replace_records_every_row_that_it_removes(*, recursive: bool) -> None:
    db = captured(NOTES, recursive=recursive)
    db.execute("INSERT INTO notes VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    before = len(recorded(db, 2))
    db.execute("INSERT OR REPLACE INTO notes VALUES (1, 'b')")
    replaced = recorded(db, 2)[before:]
    assert ("d", (2, "b"), NONE) in replaced
    if recursive:
        assert sorted(each[0] for each in replaced) == ["c", "d", "d"]
    else:
        assert replaced[-1] == ("u", (1, "a"), (1, "b"))
        assert len(replaced) == 2


def test_update_or_replace_records_the_row_that_it_removes() -> None:
    db = captured(NOTES)
    db.execute("INSERT INTO notes VALUES (1, 'a'), (2, 'b')")
    db.execute("UPDATE OR REPLACE notes SET title = 'b' WHERE id = 1")
    assert recorded(db, 2)[2:] == [("d", (2, "b"), NONE), ("u", (1, "a"), (1, "b"))]


def test_ignored_insert_and_upsert_remove_nothing() -> None:
    db = captured(NOTES)
    db.execute("INSERT INTO notes VALUES (1, 'a'), (2, 'b')")
    db.execute("INSERT OR IGNORE INTO notes VALUES (1, 'z'), (9, 'b')")
    db.execute("INSERT INTO notes VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET title = 'u'")
    db.execute("INSERT INTO notes VALUES (3, 'c')")
    assert recorded(db, 2)[2:] == [("u", (1, "a"), (1, "u")), ("c", NONE, (3, "c"))]


def test_key_with_a_collation_is_recorded_as_it_is_written() -> None:
    db = captured("CREATE TABLE t (k TEXT COLLATE NOCASE PRIMARY KEY, n) WITHOUT ROWID")
    db.execute("INSERT INTO t VALUES ('A', 1)")
    db.execute("REPLACE INTO t VALUES ('a', 2)")
    assert recorded(db, 2)[1:] == [("d", ("A", 1), NONE), ("c", NONE, ("a", 2))]


def test_replace_by_a_partial_index_is_recorded() -> None:
    db = captured(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT, live INT)",
        "CREATE UNIQUE INDEX one_live ON t (a) WHERE live = 1",
    )
    db.execute("INSERT INTO t VALUES (1, 5, 1), (2, 5, 0)")
    db.execute("INSERT OR REPLACE INTO t VALUES (3, 5, 1)")
    assert recorded(db, 3)[2:] == [
        ("d", (1, 5, 1), (None,) * 3),
        ("c", (None,) * 3, (3, 5, 1)),
    ]


_small = st.integers(0, 4)
_statements = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["INSERT OR REPLACE", "INSERT OR IGNORE", "REPLACE"]).map(
                lambda verb: f"{verb} INTO t VALUES (?, ?, ?)"
            ),
            st.tuples(_small, _small, _small),
        ),
        st.tuples(
            st.sampled_from(["UPDATE OR REPLACE", "UPDATE OR IGNORE"]).map(
                lambda verb: f"{verb} t SET id = ?, a = ?, b = ? WHERE id = ?"
            ),
            st.tuples(_small, _small, _small, _small),
        ),
        st.tuples(st.just("DELETE FROM t WHERE a = ?"), st.tuples(_small)),
    ),
    max_size=12,
)


@settings(max_examples=200)
@given(_statements, st.booleans(), st.booleans())
def test_recorded_changes_give_the_table(
    statements: list[tuple[str, tuple[int, ...]]], recursive: bool, without_rowid: bool
) -> None:
    options = " WITHOUT ROWID" if without_rowid else ""
    db = captured(
        f"CREATE TABLE t (id INT PRIMARY KEY, a INT UNIQUE, b INT, UNIQUE (b, a)){options}",
        recursive=recursive,
    )
    for statement, values in statements:
        db.execute(statement, values)
    rows: dict[int, tuple[int, ...]] = {}
    for op, old, new in recorded(db, 3):
        if op == "c":
            assert new[0] not in rows
        else:
            assert rows.pop(old[0]) == old
        if op != "d":
            rows[new[0]] = new
    assert sorted(rows.values()) == sorted(db.execute("SELECT * FROM t").fetchall())
    db.close()
