"""Addresses and errors of PostgreSQL: no password is shown, and errors that pass are told from those that do not."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks.postgres_client import connect, place, postgres_errors, rejected_by_halves
from headrace.testing.postgres import PostgresServer


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://shop:secret@db.example:5433/shop", "db.example:5433/shop"),
        ("postgresql://db.example/shop", "db.example/shop"),
        ("postgresql:///shop", "localhost/shop"),
    ],
)
def test_place_is_the_address_without_user_and_password(address: str, shown: str) -> None:
    assert place(address) == shown


def test_errors_of_the_server_are_permanent_or_pass() -> None:
    address = "postgresql://shop:secret@db.example/shop"
    with (
        pytest.raises(SinkUnavailable, match=r"PostgreSQL at db\.example/shop: gone"),
        postgres_errors(address),
    ):
        raise psycopg.OperationalError("gone")
    with pytest.raises(SinkUnavailable), postgres_errors(address):
        raise psycopg.errors.DeadlockDetected("deadlock")
    with pytest.raises(BadSink, match="no right"), postgres_errors(address):
        raise psycopg.errors.InsufficientPrivilege("no right")


def test_rejected_rows_are_found_by_halves(postgres: PostgresServer) -> None:
    with closing(connect(postgres.address, "halves")) as connection:
        connection.execute("CREATE TEMP TABLE n (n int CHECK (n NOT IN (3, 97)))")

        def write(begin: int, end: int) -> None:
            connection.execute("INSERT INTO n SELECT generate_series(%s::int, %s::int)", (begin, end - 1))

        found = list(rejected_by_halves(connection, "n", 100, write))
        assert connection.execute("SELECT count(*) FROM n").fetchone() == (98,)
    assert [each.position for each in found] == [3, 97]
    assert "violates check constraint" in found[0].reason
