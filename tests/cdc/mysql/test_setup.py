"""What a capture needs of the server: each thing that is missing is an error with the statement that adds it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.cdc.errors import BadCapture
from headrace.cdc.mysql.source import MysqlSource
from headrace.testing.mariadb import MariadbServer
from headrace.testing.requirements import require_mariadb
from tests.cdc.mysql.steps import Database, take_snapshot, take_transaction

Open = Callable[..., MysqlSource]
ROWS = "CREATE TABLE notes (id INT PRIMARY KEY, n INT)"


@contextmanager
def globally(database: Database, name: str, text: str) -> Any:
    before = database.value(f"SELECT @@GLOBAL.{name}")
    database.run(f"SET GLOBAL {name} = {text}")
    try:
        yield
    finally:
        database.run(f"SET GLOBAL {name} = {before!r}")


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("binlog_format", "STATEMENT", "SET GLOBAL binlog_format = ROW"),
        ("binlog_format", "MIXED", "SET GLOBAL binlog_format = ROW"),
        ("binlog_row_image", "MINIMAL", "SET GLOBAL binlog_row_image = FULL"),
        ("binlog_row_image", "NOBLOB", "SET GLOBAL binlog_row_image = FULL"),
        ("log_bin_compress", "ON", "SET GLOBAL log_bin_compress = OFF"),
    ],
)
def test_wrong_setting_is_named_with_the_statement_that_changes_it(
    database: Database, open_source: Open, name: str, text: str, remedy: str
) -> None:
    database.run(ROWS)
    with (
        globally(database, name, text),
        pytest.raises(BadCapture, match=f"{name} of the server is") as rejected,
    ):
        open_source().check()
    assert remedy in rejected.value.hint
    assert open_source().check() == [f"{database.name}.notes"]


def test_server_without_a_binary_log_is_rejected() -> None:
    require_mariadb()
    with MariadbServer(settings={"skip_log_bin": "1"}) as server:
        database = Database(server, "crm")
        database.run(ROWS)
        with pytest.raises(BadCapture, match="binary log of the server is off") as rejected:
            MysqlSource("crm", database.address).check()
    assert "log_bin" in rejected.value.hint


def test_permissions_that_the_hints_name_are_enough(database: Database, open_source: Open) -> None:
    """Each error names one GRANT; with all of them the capture runs."""
    database.run(ROWS, "INSERT INTO notes VALUES (1, 1)")
    address = database.create_user("DELETE ON DB.notes")
    granted = []
    for _ in range(5):
        try:
            open_source(address=address).check()
            break
        except BadCapture as rejected:
            granted.append(rejected.hint)
            database.run(rejected.hint)
    user = f"'{database.name}_user'@'%'"
    assert granted == [
        f"GRANT SELECT ON `{database.name}`.`notes` TO {user}",
        f"GRANT REPLICATION SLAVE ON *.* TO {user}",
    ]
    events = open_source(address=address).events(None)
    assert len(take_snapshot(events)) == 1
    database.run("UPDATE notes SET n = 2")
    (change,) = take_transaction(events)
    assert change.after == {"id": 1, "n": 2}


def test_tables_that_the_user_does_not_see_are_not_there(database: Database, open_source: Open) -> None:
    database.run(ROWS, "CREATE TABLE other (id INT PRIMARY KEY)")
    address = database.create_user("SELECT ON DB.other", "REPLICATION SLAVE ON *.*")
    with pytest.raises(BadCapture, match=r"no table of database .* matches notes") as rejected:
        open_source("notes", address=address).check()
    assert f"GRANT SELECT ON `{database.name}`.* TO" in rejected.value.hint


def test_column_that_the_user_may_not_read_is_rejected(database: Database, open_source: Open) -> None:
    database.run(ROWS)
    address = database.create_user("SELECT (id) ON DB.notes", "REPLICATION SLAVE ON *.*")
    with pytest.raises(BadCapture, match="may not read table") as rejected:
        open_source(address=address).check()
    assert rejected.value.hint.startswith("GRANT SELECT ON")


@pytest.mark.parametrize(
    ("create", "problem"),
    [
        ("CREATE TABLE notes (id INT)", "has no primary key"),
        ("CREATE TABLE notes (id INT PRIMARY KEY) ENGINE = MyISAM", "engine MyISAM"),
        ("CREATE TABLE notes (id INT PRIMARY KEY, t TEXT COMPRESSED)", "column t .* is compressed"),
    ],
)
def test_table_that_cannot_be_captured_is_rejected(
    database: Database, open_source: Open, create: str, problem: str
) -> None:
    database.run(create)
    with pytest.raises(BadCapture, match=problem) as rejected:
        open_source().check()
    assert "ALTER TABLE" in rejected.value.hint


def test_server_id_of_the_server_itself_is_rejected(database: Database, open_source: Open) -> None:
    database.run(ROWS)
    with pytest.raises(BadCapture, match="server_id 1 of the server itself") as rejected:
        open_source(address=f"{database.address}?server_id=1").check()
    assert "?server_id=N" in rejected.value.hint
    assert open_source(address=f"{database.address}?server_id=4711").check()


@pytest.mark.slow
def test_database_that_is_not_logged_is_rejected() -> None:
    require_mariadb()
    with MariadbServer(settings={"binlog_ignore_db": "crm"}) as server:
        database = Database(server, "crm")
        database.run(ROWS)
        with pytest.raises(BadCapture, match="does not have database crm") as rejected:
            MysqlSource("crm", database.address).check()
    assert "binlog_ignore_db" in rejected.value.hint
