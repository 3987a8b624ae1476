"""Addresses, and what the errors of a server mean to a capture."""

from __future__ import annotations

from contextlib import closing

import pymysql
import pytest

from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.mysql.connection import Connection, Login, account, parse_address, quoted, translated
from headrace.testing.ports import free_port
from tests.cdc.mysql.steps import Database

ADDRESS = "mysql://crm:secret@127.0.0.1/crm"


def test_address_has_defaults_and_escaped_characters() -> None:
    assert parse_address("mariadb://a%40b:p%2Fq@db.example:3307/c%20d?server_id=7&ssl_ca=/ca.pem") == Login(
        host="db.example",
        port=3307,
        user="a@b",
        password="p/q",
        database="c d",
        server_id=7,
        tls={"ca": "/ca.pem"},
    )
    assert parse_address("mysql://crm@db.example") == Login(
        host="db.example", port=3306, user="crm", password="", database=""
    )
    assert parse_address("mysql://crm@db.example?ssl=true").tls == {}


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        (f"{ADDRESS}?charset=latin1", "unknown option charset"),
        (f"{ADDRESS}?server_id=0", "server_id .* is not valid"),
        (f"{ADDRESS}?server_id=many", "server_id .* is not valid"),
        (f"{ADDRESS}?server_id=4294967296", "server_id .* is not valid"),
        ("mysql://crm:sec:ret/@127.0.0.1/crm", "is not valid"),
    ],
)
def test_bad_address_is_rejected_without_its_password(address: str, problem: str) -> None:
    with pytest.raises(BadCapture, match=problem) as rejected:
        parse_address(address)
    assert "sec" not in str(rejected.value)


def test_server_that_does_not_run_is_unavailable() -> None:
    with pytest.raises(SourceUnavailable, match=r"cannot connect to mysql://127\.0\.0\.1") as failed:
        Connection(f"mysql://crm:secret@127.0.0.1:{free_port()}/crm")
    assert "secret" not in str(failed.value)


def test_wrong_password_and_database_need_a_person(database: Database) -> None:
    with pytest.raises(BadCapture, match="Access denied") as denied:
        Connection(database.address.replace("secret", "wrong"))
    assert "user and password" in denied.value.hint
    with pytest.raises(BadCapture, match="Unknown database") as unknown:
        Connection(database.server.address("missing"))
    assert "database of the address" in unknown.value.hint


def test_database_without_a_permission_is_rejected_with_the_grant(database: Database) -> None:
    address = database.create_user()
    with pytest.raises(BadCapture, match="Access denied") as denied:
        Connection(address)
    assert denied.value.hint == f"GRANT SELECT ON `{database.name}`.* TO '{database.name}_user'@'%'"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (pymysql.err.OperationalError(2013, "Lost connection"), SourceUnavailable),
        (pymysql.err.InterfaceError(0, ""), SourceUnavailable),
        (ConnectionResetError(104, "reset by peer"), SourceUnavailable),
        (pymysql.err.OperationalError(1412, "Table definition has changed"), SourceUnavailable),
        (pymysql.err.OperationalError(1227, "Access denied"), BadCapture),
        (pymysql.err.ProgrammingError(1064, "You have an error"), BadCapture),
    ],
)
def test_error_is_retried_or_needs_a_person(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind), translated(ADDRESS):
        raise error


def test_result_that_is_not_read_to_its_end_closes_the_connection(database: Database) -> None:
    connection = Connection(database.address, is_raw=True)
    rows = connection.stream("SELECT seq FROM seq_1_to_100000")
    with closing(rows):
        assert next(rows) == (b"1",)
    assert not connection.is_open


def test_session_is_that_of_a_capture(database: Database) -> None:
    database.run("SET GLOBAL max_statement_time = 30")
    try:
        with Connection(database.address) as connection:
            assert connection.is_mariadb
            found = connection.first("SELECT @@time_zone, @@sql_mode, @@max_statement_time, @@tx_isolation")
    finally:
        database.run("SET GLOBAL max_statement_time = 0")
    assert found == ("+00:00", "", 0, "REPEATABLE-READ")


def test_names_are_quoted() -> None:
    assert quoted("a`b") == "`a``b`"
    assert account("o'neill") == "'o''neill'@'%'"
