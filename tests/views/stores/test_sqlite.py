"""Views in SQLite, beyond the contract of all stores: names, indexes, files."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql.types import StructType

from headrace.pipeline.errors import SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.views.definition import Definition
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.stores.sqlite import SqliteViews

USERS = Definition(name="users", topics=("t",), key=("id",))

Fill = Callable[..., SqliteViews]


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """Writes a version with these columns, and returns the store."""

    def write(version: int, **row: object) -> SqliteViews:
        store = SqliteViews(USERS, tmp_path)
        schema = StructType().add("id", "long")
        for name in row:
            schema = schema.add(name, "string")
        writer = store.sink(version).open(f"job {version}", schema)
        batch = pa.RecordBatch.from_pylist([{"id": 1, **row}])
        writer.apply([batch], Fence(job="j", checkpoint="c", batch_id=0), lambda _rejected: None)
        writer.close()
        return store

    return write


def indexes(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute(
            "SELECT name, tbl_name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        )
        return sorted(rows.fetchall())


def test_indexes_of_users_follow_every_switch(fill: Fill, tmp_path: Path) -> None:
    fill(1, city="Oslo").switch(1)
    with closing(sqlite3.connect(tmp_path / "views.db")) as database:
        database.execute('CREATE UNIQUE INDEX "by ""city""" ON "users__1" (city COLLATE NOCASE, id DESC)')
        database.execute("CREATE INDEX some ON users__1(id) WHERE city <> 'ON users__1 ('")
    fill(2, city="Oslo").switch(2)
    assert indexes(tmp_path / "views.db") == [
        ('by "city"', "users__1"),
        ('by "city"__2', "users__2"),
        ("some", "users__1"),
        ("some__2", "users__2"),
    ]
    store = fill(3, city="Oslo")
    store.drop(1)
    store.switch(3)
    store.drop(2)
    assert indexes(tmp_path / "views.db") == [('by "city"__3', "users__3"), ("some__3", "users__3")]
    with closing(sqlite3.connect(tmp_path / "views.db")) as database:
        (statement,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'some__3'").fetchone()
    assert statement.endswith("(id) WHERE city <> 'ON users__1 ('")


def test_index_on_a_column_that_is_gone_stops_the_switch(fill: Fill, tmp_path: Path) -> None:
    fill(1, city="Oslo").switch(1)
    with closing(sqlite3.connect(tmp_path / "views.db")) as database:
        database.execute("CREATE INDEX by_city ON users__1 (city)")
    with pytest.raises(BadView, match=r"cannot have the index by_city: .*no such column: city") as raised:
        fill(2, town="Oslo").switch(2)
    assert 'DROP INDEX "by_city"' in raised.value.hint
    assert SqliteViews(USERS, tmp_path).served() == 1


def test_columns_may_change_with_a_version(fill: Fill, tmp_path: Path) -> None:
    fill(1, city="Oslo").switch(1)
    fill(2, town="Rome", country="Italy").switch(2)
    with closing(sqlite3.connect(tmp_path / "views.db")) as database:
        assert database.execute("SELECT town, country FROM users").fetchall() == [("Rome", "Italy")]


def test_name_of_a_table_is_rejected(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "views.db")) as database:
        database.execute("CREATE TABLE users (id INTEGER)")
    with pytest.raises(BadView, match="has a table users already"):
        SqliteViews(USERS, tmp_path).check()


def test_check_creates_nothing(tmp_path: Path) -> None:
    SqliteViews(USERS, tmp_path / "deep" / "folder").check()
    assert list(tmp_path.iterdir()) == []


def test_file_may_be_elsewhere(tmp_path: Path) -> None:
    for at in (str(tmp_path / "own.db"), f"sqlite:///{tmp_path}/own.db"):
        assert SqliteViews(replace(USERS, at=at), tmp_path / "data").path == tmp_path / "own.db"
    with pytest.raises(BadView, match="redis:// is not a file"):
        SqliteViews(replace(USERS, at="redis://here"), tmp_path)


def test_file_that_is_no_database_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "views.db").write_text("not a database " * 100)
    with pytest.raises(BadView, match=r"views\.db: file is not a database"):
        SqliteViews(USERS, tmp_path).check()


def test_folder_that_cannot_be_used_is_an_error_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadView, match="is not a folder"):
        SqliteViews(replace(USERS, at=str(tmp_path / "file" / "views.db")), tmp_path).check()
    (tmp_path / "views.db").mkdir()
    with pytest.raises(ViewUnavailable, match=r"SQLite cannot use .*views\.db"):
        SqliteViews(USERS, tmp_path).check()


def test_full_disk_leaves_the_served_version_whole_and_the_batch_can_be_repeated(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no disk can be mounted here")
    try:
        store = SqliteViews(replace(USERS, at=str(disk / "views.db")), tmp_path)
        schema = StructType().add("id", "long").add("city", "string")
        writer = store.sink(1).open("job 1", schema)

        def apply(batch: int, city: str, rows: int) -> None:
            written = pa.RecordBatch.from_pylist([{"id": number, "city": city} for number in range(rows)])
            fence = Fence(job="job 1", checkpoint="c", batch_id=batch)
            writer.apply([written], fence, lambda _rejected: pytest.fail("no row is bad"))

        apply(0, "Oslo", 10)
        store.switch(1)
        (disk / "other").write_bytes(bytes(1_000_000))
        with pytest.raises(SinkUnavailable, match="disk is full") as raised:
            apply(1, "Rome" * 200, 2_000)
        assert "free space" in raised.value.hint
        assert {row["city"] for row in store.sample(1, 100)} == {"Oslo"}
        assert store.served() == 1
        (disk / "other").unlink()
        apply(1, "Rome", 2_000)
        assert store.count(1) == 2_000
        writer.close()
        store.close()
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
