from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.query.text import parse
from headrace.views.reading import sqlite as module
from headrace.views.reading.sqlite import SqliteReader
from tests.views.reading.tables import DEFINITION, write


def test_file_that_is_missing_is_not_created(tmp_path: Path) -> None:
    reader = SqliteReader(tmp_path / "views.db", DEFINITION, 1)
    with pytest.raises(ViewUnavailable, match="not there"):
        reader.columns()
    assert not (tmp_path / "views.db").exists()


def test_file_that_is_no_database_is_an_error_for_users(tmp_path: Path) -> None:
    (tmp_path / "views.db").write_bytes(b"not a database, and longer than a header" * 100)
    reader = SqliteReader(tmp_path / "views.db", DEFINITION, 1)
    with closing(reader), pytest.raises(BadView, match="may not be a database"):
        reader.columns()


def test_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    write(tmp_path / "views.db")
    with closing(sqlite3.connect(tmp_path / "views.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM shops__1")
        with closing(SqliteReader(tmp_path / "views.db", DEFINITION, 1)) as reader:
            assert reader.get({"id": 1}) is not None


def test_selection_that_takes_too_long_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "views.db")) as writer:
        writer.execute("CREATE TABLE shops__1 (id BIGINT PRIMARY KEY, name TEXT)")
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50000)"
        writer.execute(f"INSERT INTO shops__1 {numbers} SELECT i, 'x' FROM n")
        writer.commit()
    monkeypatch.setattr(module, "QUERY_TIMEOUT_S", -1)
    with closing(SqliteReader(tmp_path / "views.db", DEFINITION, 1)) as reader:
        selection = parse("WHERE name LIKE '%y%'", columns=["id", "name"], key=["id"])
        with pytest.raises(ViewUnavailable, match="took longer"):
            reader.select(selection)


def test_value_of_another_program_is_returned_as_it_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "views.db")) as writer:
        writer.execute(
            "CREATE TABLE shops__1 (id BIGINT PRIMARY KEY, day DATE, at TIMESTAMP, price DECIMAL(5,2))"
        )
        writer.execute("INSERT INTO shops__1 VALUES (1, 'someday', 12, 'cheap')")
        writer.commit()
    with closing(SqliteReader(tmp_path / "views.db", DEFINITION, 1)) as reader:
        assert reader.get({"id": 1}) == {"id": 1, "day": "someday", "at": 12, "price": "cheap"}
