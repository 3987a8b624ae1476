"""Snapshots beside the stream: chunks that are interrupted, altered and emptied; and positions of a quiet table."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from headrace.cdc.change import Change, Committed, Event, Op
from headrace.cdc.mysql import live, snapshot
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


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "WINDOW_ROWS", 3)


@pytest.fixture
def notes(database: Database) -> Database:
    database.run("CREATE TABLE notes (id INT PRIMARY KEY, n INT)")
    database.run("INSERT INTO notes SELECT seq, 0 FROM seq_1_to_20")
    return database


def is_end(event: Event) -> bool:
    return is_snapshot_end(event) and isinstance(event, Committed) and event.transaction is None


def rows_after(changes: list[Change]) -> dict[int, object]:
    rows: dict[int, object] = {}
    for change in changes:
        if change.op is Op.TRUNCATE:
            rows.clear()
        elif change.op is Op.DELETE:
            assert change.before is not None
            del rows[change.before["id"]]
        else:
            assert change.after is not None
            rows[change.after["id"]] = dict(change.after)
    return rows


def table_of(database: Database) -> dict[int, object]:
    return {id: {"id": id, "n": n} for id, n in database.rows("SELECT id, n FROM notes")}


def test_snapshot_continues_in_the_middle_with_chunks(notes: Database, open_source: Open) -> None:
    events = open_source().events(None)
    first = [next(events) for _ in range(5)]
    events.close()
    notes.run("UPDATE notes SET n = 1 WHERE id IN (2, 15)", "DELETE FROM notes WHERE id IN (3, 16)")
    last = first[-1]
    assert last is not None
    again = take_until(open_source().events(last.position), is_end)
    read = [each.after["id"] for each in changes_of(again) if each.op is Op.READ and each.after]
    assert read == [id for id in range(6, 21) if id != 16]


def test_changes_while_a_table_is_read_again_are_neither_lost_nor_undone(
    notes: Database, open_source: Open
) -> None:
    source = open_source()
    events = source.events(None)
    taken = take_snapshot(events)
    is_stopping = threading.Event()

    def write() -> None:
        writer = Database(notes.server, notes.name, exists=True)
        number = 0
        while not is_stopping.is_set():
            number += 1
            writer.run(f"UPDATE notes SET n = {number} WHERE id = {number % 25 + 1}")
            writer.run(f"DELETE FROM notes WHERE id = {number % 7 + 1}")
            writer.run(f"REPLACE INTO notes VALUES ({number % 25 + 1}, {-number})")
        writer.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            source.snapshot([f"{notes.name}.notes"])
            taken += changes_of(take_until(events, is_end))
    finally:
        is_stopping.set()
        writer.join()
    notes.run("INSERT INTO notes VALUES (1000, 0)")
    taken += changes_of(
        take_until(
            events,
            lambda event: (
                isinstance(event, Change) and event.op is Op.CREATE and event.after == {"id": 1000, "n": 0}
            ),
        )
    )
    assert rows_after(taken) == table_of(notes)
    assert sum(each.op is Op.READ for each in taken) > 20 + 3 * 10


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE notes ADD COLUMN c INT",
        "TRUNCATE TABLE notes",
        "DROP TABLE notes",
        "RENAME TABLE notes TO old",
    ],
)
def test_table_may_be_altered_while_it_is_read_again(
    notes: Database, open_source: Open, statement: str
) -> None:
    notes.run("CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    source = open_source()
    events = source.events(None)
    take_snapshot(events)
    source.snapshot([f"{notes.name}.notes", f"{notes.name}.other"])
    take_until(events, lambda event: isinstance(event, Change))
    notes.run(statement)
    found = changes_of(take_until(events, is_end))
    assert ("other", Op.READ) in {(each.table.path[1], each.op) for each in found}
    notes.run("INSERT INTO other VALUES (2)")
    (change,) = take_transaction(events)
    assert change.after == {"id": 2}


def test_position_follows_the_log_while_only_other_tables_change(
    notes: Database, open_source: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "POSITION_S", 0.0)
    notes.run("CREATE TABLE other (id INT PRIMARY KEY)")
    events = open_source("notes").events(None)
    before = take_until(events, is_snapshot_end)[-1]
    notes.run("INSERT INTO other VALUES (1)")
    (after,) = take_until(events, lambda event: isinstance(event, Committed))
    assert before.position is not None
    assert after.position is not None
    assert after.position["pos"] > before.position["pos"]
    assert after.position["gtid"] == notes.value("SELECT @@gtid_binlog_pos")


def test_idle_stream_yields_nothing(notes: Database, open_source: Open) -> None:
    events = open_source().events(None)
    take_snapshot(events)
    assert [next(events) for _ in range(3)] == [None, None, None]


def test_once_reads_a_requested_table_too(notes: Database, open_source: Open) -> None:
    source = open_source()
    taken: list[Event] = []
    for event in source.events(None, once=True):
        if event is not None:
            taken.append(event)
            if is_end(event) and len(taken) < 25:
                source.snapshot([f"{notes.name}.notes"])
    assert sum(isinstance(each, Change) for each in taken) == 40
