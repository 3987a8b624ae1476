"""A table in SQLite: rows and the bytes of deleted ones are gone from the file and its write-ahead log."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from headrace.erasure.errors import BadErasure
from headrace.erasure.places.sqlite_table import SqliteTable
from headrace.erasure.subject import Subject

SECRET = "Ada Lovelace, Dorset Street"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "views.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)")
        rows = [(number, SECRET if number == 7 else f"person {number}") for number in range(500)]
        connection.executemany("INSERT INTO users VALUES (?, ?)", rows)
    connection.close()
    return path


def bytes_on_disk(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.iterdir())


@pytest.mark.parametrize("key", ["7", '{"id": 7}'])
def test_row_and_its_bytes_are_gone(file: Path, key: str) -> None:
    place, subject = SqliteTable(file, "users", "id"), Subject(key=key)
    assert place.remaining(subject) == 1
    place.erase(subject)
    assert place.remaining(subject) == 0
    assert SECRET.encode() not in bytes_on_disk(file)
    assert b"person 8" in bytes_on_disk(file)


def test_bytes_of_a_row_that_was_deleted_before_are_gone(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("DELETE FROM users WHERE id = 7")
    connection.close()
    assert SECRET.encode() in bytes_on_disk(file), "the test shows nothing"
    SqliteTable(file, "users", "id").erase(Subject(key="7"))
    assert SECRET.encode() not in bytes_on_disk(file)


def test_erasing_twice_is_harmless(file: Path) -> None:
    place, subject = SqliteTable(file, "users", "id"), Subject(key="7")
    place.erase(subject)
    place.erase(subject)
    assert place.remaining(Subject(key="8")) == 1


def test_table_that_is_missing_is_an_error_that_names_it(file: Path) -> None:
    with pytest.raises(BadErasure, match="no such table: people"):
        SqliteTable(file, "people", "id").remaining(Subject(key="7"))
    with pytest.raises(BadErasure, match="there is no file"):
        SqliteTable(file.with_name("other.db"), "users", "id").erase(Subject(key="7"))
