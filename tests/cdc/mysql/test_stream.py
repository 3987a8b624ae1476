"""Statements in the log: the columns, the names and the rows of tables change without row events."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from headrace.cdc.change import Change, Event, Op
from headrace.cdc.errors import BadCapture
from headrace.cdc.mysql.source import MysqlSource
from tests.cdc.mysql.steps import (
    Database,
    changes_of,
    is_snapshot_end,
    read_on,
    take_snapshot,
    take_transaction,
    take_until,
)

Events = Generator[Event | None, None, None]


@pytest.fixture(params=["FULL", "NO_LOG"])
def metadata(request: pytest.FixtureRequest, database: Database) -> Any:
    """With and without the names of columns in the log."""
    database.run(f"SET GLOBAL binlog_row_metadata = {request.param}")
    yield request.param
    database.connect()
    database.run("SET GLOBAL binlog_row_metadata = FULL", "SET GLOBAL binlog_row_image = FULL")


@pytest.fixture
def events(database: Database, metadata: str, open_source: Callable[..., MysqlSource]) -> Events:
    database.run("CREATE TABLE notes (id INT PRIMARY KEY, title VARCHAR(20), n INT)")
    database.run("INSERT INTO notes VALUES (1, 'one', 10), (2, 'two', 20)")
    found = open_source().events(None)
    take_snapshot(found)
    return found


def names_of(change: Change) -> list[str]:
    return [column.name for column in change.table.columns]


def test_added_renamed_and_dropped_columns_are_followed(database: Database, events: Events) -> None:
    database.run("ALTER TABLE notes ADD COLUMN colour VARCHAR(9) FIRST, CHANGE n amount BIGINT")
    database.run("UPDATE notes SET colour = 'red' WHERE id = 1")
    (change,) = take_transaction(events)
    assert change.after == {"colour": "red", "id": 1, "title": "one", "amount": 10}
    assert names_of(change) == ["colour", "id", "title", "amount"]
    database.run("ALTER TABLE notes DROP COLUMN title", "UPDATE notes SET amount = 0 WHERE id = 1")
    (change,) = take_transaction(events)
    assert change.after == {"colour": "red", "id": 1, "amount": 0}


def test_column_names_before_a_change_of_them_are_the_old_ones(database: Database, events: Events) -> None:
    """The statements are all in the log before it is read."""
    database.run("UPDATE notes SET n = 11 WHERE id = 1")
    (first,) = take_transaction(events)
    database.run("UPDATE notes SET n = 12 WHERE id = 1", "ALTER TABLE notes CHANGE n amount INT")
    database.run("UPDATE notes SET amount = 13 WHERE id = 1")
    (before,), (after,) = take_transaction(events), take_transaction(events)
    assert [names_of(each) for each in (first, before, after)] == [
        ["id", "title", "n"],
        ["id", "title", "n"],
        ["id", "title", "amount"],
    ]


def test_truncate_has_no_key_and_rows_after_it_follow(database: Database, events: Events) -> None:
    database.run("TRUNCATE TABLE notes", "INSERT INTO notes VALUES (1, 'again', 1)")
    (truncated,), (created,) = take_transaction(events), take_transaction(events)
    assert (truncated.op, truncated.before, truncated.after) == (Op.TRUNCATE, None, None)
    assert truncated.table.path == (database.name, "notes")
    assert created.after == {"id": 1, "title": "again", "n": 1}


def test_dropped_table_is_emptied_and_may_be_created_again(database: Database, events: Events) -> None:
    database.run("DROP TABLE notes", "CREATE TABLE notes (id INT PRIMARY KEY, other INT)")
    database.run("INSERT INTO notes VALUES (7, 70)")
    (emptied,), (created,) = take_transaction(events), take_transaction(events)
    assert emptied.op is Op.TRUNCATE
    assert created.after == {"id": 7, "other": 70}


@pytest.mark.parametrize(
    "statement", ["RENAME TABLE notes TO letters", "ALTER TABLE notes RENAME letters, ADD COLUMN x INT"]
)
def test_renamed_table_is_read_under_its_new_name(database: Database, events: Events, statement: str) -> None:
    database.run(statement)
    found = changes_of(take_until(events, lambda event: is_snapshot_end(event) and event.transaction is None))
    assert {(each.op, each.table.path[1]) for each in found if each.op is Op.TRUNCATE} == {
        (Op.TRUNCATE, "notes"),
        (Op.TRUNCATE, "letters"),
    }
    read = [each.after["id"] for each in found if each.op is Op.READ and each.after]
    assert read == [1, 2]
    assert found[-1].table.path[1] == "letters"
    database.run("UPDATE letters SET n = 0 WHERE id = 1")
    (change,) = take_transaction(events)
    assert change.table.path[1] == "letters"


def test_table_that_gets_another_key_is_read_again(database: Database, events: Events) -> None:
    database.run("ALTER TABLE notes DROP PRIMARY KEY, ADD PRIMARY KEY (title)")
    found = changes_of(take_until(events, lambda event: is_snapshot_end(event) and event.transaction is None))
    assert [(each.op, each.table.key) for each in found[1:]] == [(Op.READ, ("title",))] * 2


def test_new_table_without_a_key_is_skipped(database: Database, events: Events) -> None:
    database.run("CREATE TABLE loose (a INT)", "INSERT INTO loose VALUES (1)")
    database.run("INSERT INTO notes VALUES (3, 'three', 30)")
    (change,) = take_transaction(events)
    assert change.table.path[1] == "notes"


def test_created_table_with_rows_of_a_query_is_complete(database: Database, events: Events) -> None:
    database.run("CREATE TABLE copy (PRIMARY KEY (id)) SELECT * FROM notes")
    assert [change.after and change.after["id"] for change in take_transaction(events)] == [1, 2]


def test_rows_of_a_rolled_back_savepoint_are_not_yielded(database: Database, events: Events) -> None:
    database.run("BEGIN", "INSERT INTO notes VALUES (3, 'three', 30)", "SAVEPOINT s")
    database.run("INSERT INTO notes VALUES (4, 'four', 40)", "ROLLBACK TO SAVEPOINT s", "COMMIT")
    assert [change.after and change.after["id"] for change in take_transaction(events)] == [3]


def test_change_in_statement_format_is_an_error(database: Database, events: Events) -> None:
    database.run("SET SESSION binlog_format = STATEMENT", "INSERT INTO notes VALUES (3, 'three', 30)")
    with pytest.raises(BadCapture, match="statement format") as failed:
        read_on(events)
    assert "ROW" in failed.value.hint


def test_change_without_the_whole_row_is_an_error(database: Database, events: Events) -> None:
    database.run("SET SESSION binlog_row_image = MINIMAL", "UPDATE notes SET n = 0 WHERE id = 1")
    with pytest.raises(BadCapture, match="not all columns") as failed:
        read_on(events)
    assert "binlog_row_image = FULL" in failed.value.hint


def test_compressed_event_is_an_error(database: Database, events: Events) -> None:
    database.run("SET GLOBAL log_bin_compress_min_len = 10", "SET GLOBAL log_bin_compress = ON")
    try:
        database.connect()
        database.run("INSERT INTO notes VALUES (3, REPEAT('x', 20), 30), (4, REPEAT('x', 20), 30)")
    finally:
        database.run("SET GLOBAL log_bin_compress = OFF", "SET GLOBAL log_bin_compress_min_len = 256")
    with pytest.raises(BadCapture, match="log_bin_compress"):
        read_on(events)


def test_xa_transaction_is_an_error(database: Database, events: Events) -> None:
    name = database.name
    database.run(f"XA START '{name}'", "INSERT INTO notes VALUES (3, 'three', 30)", f"XA END '{name}'")
    database.run(f"XA PREPARE '{name}'", f"XA COMMIT '{name}'")
    with pytest.raises(BadCapture, match="XA transaction"):
        read_on(events)


def test_table_altered_before_its_changes_were_read_is_an_error_without_names(
    database: Database, metadata: str, events: Events, open_source: Callable[..., MysqlSource]
) -> None:
    database.run("INSERT INTO notes VALUES (3, 'three', 30)")
    (change,) = take_transaction(events)
    database.run("INSERT INTO notes VALUES (4, 'four', 40)", "DO SLEEP(1.1)")
    database.run("ALTER TABLE notes CHANGE n amount INT")
    again = open_source().events(change.position)
    if metadata == "FULL":
        (later,) = take_transaction(again)
        assert later.after == {"id": 4, "title": "four", "n": 40}
    else:
        with pytest.raises(BadCapture, match="names of its columns") as failed:
            read_on(again)
        assert "binlog_row_metadata = FULL" in failed.value.hint
