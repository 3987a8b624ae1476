from __future__ import annotations

import contextlib
import fcntl
import os
import resource
from pathlib import Path

import psycopg
import pytest

from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.postgres.connection import FORMATS, is_readable, open_connection, quoted, translated
from headrace.testing.ports import free_port
from headrace.testing.postgres import PostgresServer
from tests.cdc.postgres.steps import Database


def test_every_connection_prints_values_alike_whatever_the_address_sets(database: Database) -> None:
    with open_connection(
        database.address + "?options=-c%20timezone%3DEurope/Oslo%20-c%20work_mem%3D8MB"
    ) as connection:
        shown = {name: connection.execute(f"SHOW {name}").fetchone() for name in [*FORMATS, "work_mem"]}
    assert shown["timezone"] == ("UTC",)
    assert shown["work_mem"] == ("8MB",)
    assert shown["intervalstyle"] == ("iso_8601",)


def test_missing_server_is_unavailable_and_the_password_is_not_shown() -> None:
    with pytest.raises(SourceUnavailable) as raised:
        open_connection(f"postgresql://ada:secret@127.0.0.1:{free_port()}/shop")
    assert "secret" not in str(raised.value)
    assert "127.0.0.1" in str(raised.value)


@pytest.mark.parametrize(
    ("part", "other"), [("/shop", "/missing"), ("//headrace@", "//nobody@")], ids=["database", "user"]
)
def test_unknown_database_or_user_is_a_bad_capture(
    logical_postgres: PostgresServer, part: str, other: str
) -> None:
    address = logical_postgres.address.replace("/postgres", "/shop").replace(part, other)
    with pytest.raises(BadCapture, match=r"does not exist.*check the user and the database"):
        open_connection(address)


def connect_often(address: str) -> None:
    """The server reads its rules again in its own time."""
    for _ in range(200):
        open_connection(address).close()


def test_wrong_password_is_a_bad_capture() -> None:
    with PostgresServer() as server, psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("CREATE ROLE ada LOGIN PASSWORD 'right'")
        row = connection.execute("SHOW hba_file").fetchone()
        assert row is not None
        rules = Path(row[0])
        rules.write_text("host all ada 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        connection.execute("SELECT pg_reload_conf()")
        address = server.address.replace("//headrace@", "//ada:{}@")
        with pytest.raises(BadCapture, match="check user and password") as raised:
            connect_often(address.format("wrong"))
        assert "wrong" not in str(raised.value)
        open_connection(address.format("right")).close()


def test_address_that_cannot_be_parsed_is_a_bad_capture() -> None:
    with pytest.raises(BadCapture, match="is not valid"):
        open_connection("postgresql://ada@127.0.0.1:x/shop?nonsense=1")


def test_errors_of_the_driver_say_whether_a_person_has_to_act() -> None:
    address = "postgresql://ada:secret@example/shop"
    for error, kind in [
        (psycopg.OperationalError("gone"), SourceUnavailable),
        (psycopg.errors.InsufficientPrivilege("no"), BadCapture),
        (psycopg.errors.SyntaxError("odd"), BadCapture),
        (psycopg.errors.UndefinedTable("renamed"), SourceUnavailable),
    ]:
        with pytest.raises(kind), translated(address):
            raise error


def test_names_are_quoted() -> None:
    assert quoted('a"b') == '"a""b"'


def test_connection_of_a_process_with_many_open_files_is_waited_for() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reading, writing = os.pipe()
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_000), hard))
        stack.callback(os.close, reading)
        stack.callback(os.close, writing)
        high = fcntl.fcntl(reading, fcntl.F_DUPFD, 1_500)
        stack.callback(os.close, high)
        assert not is_readable(high, 0.01)
        os.write(writing, b"x")
        assert is_readable(high, 10)
