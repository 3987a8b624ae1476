"""A SQLite file as a source. What all sources promise is in tests/contract/test_change_sources.py."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from headrace.cdc.change import Change, Op
from headrace.cdc.sqlite import source as module
from headrace.cdc.sqlite.source import SqliteSource
from tests.contract.change_source_contract import changes, sqlite_case


def test_confirmed_changes_are_deleted_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONFIRM_S_MIN", 0.0)
    case = sqlite_case(tmp_path)
    case.run("CREATE TABLE notes (id INTEGER PRIMARY KEY)")
    source = SqliteSource("notes", tmp_path / "shop.db")
    (*_, last) = source.events(None, once=True)
    assert last is not None
    case.run("INSERT INTO notes VALUES (1), (2), (3)")
    events = [each for each in source.events(last.position, once=True) if each is not None]
    second = changes(events)[1].position
    assert second is not None
    source.confirm(second)
    list(source.events(events[-1].position, once=True))
    source.close()
    connection = sqlite3.connect(tmp_path / "shop.db")
    assert connection.execute("SELECT id FROM headrace_notes_changes").fetchall() == [(3,)]
    connection.close()


def test_snapshot_lets_writers_through_if_the_file_has_no_wal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_S_MAX", 0.01)
    path = tmp_path / "plain.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY)")
    connection.executemany("INSERT INTO notes VALUES (?)", [(id,) for id in range(1, 2_001)])
    connection.close()

    def write() -> None:
        writer = sqlite3.connect(path, isolation_level=None, timeout=60)
        writer.execute("INSERT INTO notes VALUES (0)")
        writer.close()

    thread = threading.Thread(target=write)
    source = SqliteSource("notes", path)
    ops = []
    for event in source.events(None, once=True):
        if isinstance(event, Change):
            ops.append(event.op)
            time.sleep(0.0005)  # the log takes its time, and the reader holds its lock meanwhile
        if len(ops) == 1 and not thread.is_alive():
            thread.start()
    thread.join()
    source.close()
    assert ops.count(Op.READ) == 2_000
    assert ops.index(Op.CREATE) < 2_000, "the writer waited for the end of the snapshot"
