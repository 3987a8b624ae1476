"""What a capture creates and reads in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.sqlite import changelog as module
from headrace.cdc.sqlite.changelog import Changelog, json_value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "notes.db"
    run(path, "CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT)")
    return path


@pytest.fixture
def changelog(path: Path) -> Iterator[Changelog]:
    changelog = Changelog("test", path, ["*"])
    yield changelog
    changelog.close()


def run(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def followed(changelog: Changelog) -> list[str]:
    """The tables that got a new version."""
    before = changelog.last_version()
    changelog.follow_schema()
    return changelog.installed_after(before)


def test_schema_is_followed_once_for_each_change_of_it(changelog: Changelog, path: Path) -> None:
    assert changelog.last_version() == 0
    assert followed(changelog) == ["notes"]
    assert followed(changelog) == []
    run(path, "ALTER TABLE notes ADD COLUMN n")
    assert followed(changelog) == ["notes"]
    run(path, "CREATE TABLE tags (id INTEGER PRIMARY KEY)")
    assert followed(changelog) == ["tags"]
    run(path, "DROP TABLE tags")
    assert followed(changelog) == []
    assert changelog.installed_after(0) == ["notes"]
    assert changelog.current_table("tags") is None


def test_change_is_read_with_the_columns_that_its_table_had(changelog: Changelog, path: Path) -> None:
    changelog.follow_schema()
    run(path, "INSERT INTO notes VALUES (1, 'a')", "ALTER TABLE notes ADD COLUMN n")
    changelog.follow_schema()
    run(path, "INSERT INTO notes VALUES (2, 'b', 7)")
    assert [each.after for each in changelog.changes(0)] == [
        {"id": 1, "title": "a"},
        {"id": 2, "title": "b", "n": 7},
    ]


def test_renamed_table_is_a_new_one(changelog: Changelog, path: Path) -> None:
    changelog.follow_schema()
    run(path, "ALTER TABLE notes RENAME TO letters", "INSERT INTO letters VALUES (1, 'a')")
    assert followed(changelog) == ["letters"]
    run(path, "INSERT INTO letters VALUES (2, 'b')")
    assert [(each.table.name, each.after["id"]) for each in changelog.changes(0)] == [
        ("notes", 1),
        ("letters", 2),
    ]


def test_two_captures_of_a_file_do_not_disturb_each_other(changelog: Changelog, path: Path) -> None:
    other = Changelog("other", path, ["*"])
    changelog.follow_schema()
    other.follow_schema()
    run(path, "INSERT INTO notes VALUES (1, 'a')")
    changelog.remove()
    run(path, "INSERT INTO notes VALUES (2, 'b')")
    assert [each.id for each in other.changes(0)] == [1, 2]
    other.close()


def test_ids_are_not_used_again_after_a_deletion(
    changelog: Changelog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DELETE_ROWS_MAX", 2)
    changelog.follow_schema()
    run(path, *(f"INSERT INTO notes VALUES ({id}, 'a')" for id in range(5)))
    changelog.delete(4)
    assert [each.id for each in changelog.changes(0)] == [5]
    changelog.delete(5)
    run(path, "DELETE FROM notes WHERE id = 1")
    assert [each.id for each in changelog.changes(0)] == [6]
    assert changelog.last_id() == 6


def test_rows_are_read_in_the_order_of_the_key_and_after_a_key(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    run(path, "CREATE TABLE t (a TEXT, b INT, PRIMARY KEY (a, b)) WITHOUT ROWID")
    run(path, "INSERT INTO t VALUES ('y', 1), ('x', 2), ('x', 1), (x'00', 3)")
    changelog = Changelog("test", path, ["*"])
    changelog.follow_schema()
    table = changelog.current_table("t")
    assert table is not None
    keys = [key for key, _ in changelog.rows(table, None)]
    assert keys == [("x", 1), ("x", 2), ("y", 1), (b"\x00", 3)]
    for number, key in enumerate(keys):
        assert [each for each, _ in changelog.rows(table, key)] == keys[number + 1 :]
    changelog.close()


def test_locked_file_is_unavailable_and_not_a_wrong_capture(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUSY_TIMEOUT_S", 0.05)
    changelog = Changelog("test", path, ["*"])
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(SourceUnavailable, match="locked"):
        changelog.follow_schema()
    writer.close()
    assert followed(changelog) == ["notes"]
    changelog.close()


def test_missing_file_and_one_of_another_kind_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(BadCapture, match="no file"):
        Changelog("test", tmp_path / "missing.db", ["*"])
    (tmp_path / "text.db").write_text("no database, but long enough to be read as one " * 50)
    changelog = Changelog("test", tmp_path / "text.db", ["*"])
    with pytest.raises(BadCapture, match="not a database"):
        changelog.matching()
    changelog.close()


def test_values_that_json_does_not_have_are_text() -> None:
    assert json_value(b"\x00\xff") == "AP8="
    assert (json_value(float("inf")), json_value(float("-inf"))) == ("Infinity", "-Infinity")
    assert [json_value(each) for each in (1, 0.5, "a", None)] == [1, 0.5, "a", None]


def test_text_that_is_not_utf8_stays_visible(changelog: Changelog, path: Path) -> None:
    changelog.follow_schema()
    run(path, "INSERT INTO notes VALUES (1, CAST(x'61ff' AS TEXT))")
    (change,) = changelog.changes(0)
    assert change.after["title"] == "a\\xff"
