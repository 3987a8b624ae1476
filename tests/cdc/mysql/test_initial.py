"""The first snapshot: all tables at one place of the log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.cdc.change import Change, Op
from headrace.cdc.mysql import initial
from headrace.cdc.mysql.source import MysqlSource
from tests.cdc.mysql.steps import (
    Database,
    changes_of,
    is_snapshot_end,
    take_snapshot,
    take_transaction,
    take_until,
)

Open = Callable[..., MysqlSource]


@pytest.fixture
def two_tables(database: Database) -> Database:
    database.run("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY, n INT)")
    database.run("INSERT INTO a VALUES (1), (2)", "INSERT INTO b VALUES (1, 10), (2, 20)")
    return database


def test_all_tables_are_those_of_one_moment(two_tables: Database, open_source: Open) -> None:
    events = open_source().events(None)
    taken = take_until(events, lambda event: isinstance(event, Change))
    two_tables.run("UPDATE b SET n = 0", "DELETE FROM a")
    taken += take_until(events, is_snapshot_end)
    read = changes_of(taken)
    assert [(each.table.path[1], each.after) for each in read] == [
        ("a", {"id": 1}),
        ("a", {"id": 2}),
        ("b", {"id": 1, "n": 10}),
        ("b", {"id": 2, "n": 20}),
    ]
    assert len({(each.source["file"], each.source["pos"]) for each in read}) == 1
    assert [each.op for each in take_transaction(events)] == [Op.UPDATE, Op.UPDATE]
    assert [each.op for each in take_transaction(events)] == [Op.DELETE, Op.DELETE]


def test_large_table_is_read_in_chunks(
    two_tables: Database, open_source: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initial, "CHUNK_ROWS", 2)
    two_tables.run("INSERT INTO a VALUES (3), (4), (5)")
    read = take_snapshot(open_source("a").events(None))
    assert [each.after for each in read] == [{"id": id} for id in range(1, 6)]


def test_tables_can_be_altered_as_soon_as_all_are_read(two_tables: Database, open_source: Open) -> None:
    """The last event of the snapshot has been yielded, and the source waits for its reader."""
    events = open_source().events(None)
    take_until(events, is_snapshot_end)
    two_tables.run("SET SESSION lock_wait_timeout = 10", "ALTER TABLE a ADD COLUMN c INT")
    two_tables.run("INSERT INTO a VALUES (3, 30)")
    (change,) = take_transaction(events)
    assert change.after == {"id": 3, "c": 30}


def test_progress_has_the_rows_of_each_table(two_tables: Database, open_source: Open) -> None:
    source = open_source()
    events = source.events(None)
    next(events)
    first, second = source.progress()
    assert (first.table, first.rows_read, first.is_done) == (f"{two_tables.name}.a", 1, False)
    assert (second.rows_read, second.is_done) == (0, False)
    take_until(events, is_snapshot_end)
    assert all(each.is_done for each in source.progress())
