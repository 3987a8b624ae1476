from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from headrace.testing import PostgresServer, free_port
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.reading.postgresql import PostgresReader
from tests.views.reading.tables import DEFINITION


def test_server_that_does_not_respond_is_unavailable() -> None:
    address = f"postgresql://ada:secret@127.0.0.1:{free_port()}/shop"
    reader = PostgresReader(address, DEFINITION, 1)
    with pytest.raises(ViewUnavailable, match="is the server running") as raised:
        reader.columns()
    assert "secret" not in str(raised.value)


def test_address_that_cannot_be_read_is_not_quoted() -> None:
    reader = PostgresReader("postgresql://ada:se cret@[/shop", DEFINITION, 1)
    with pytest.raises((BadView, ViewUnavailable)) as raised:
        reader.columns()
    assert "cret" not in str(raised.value)


def test_reader_connects_again_after_its_connection_was_closed(postgres: PostgresServer) -> None:
    address = postgres.create_database("read_again")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE shops__1 (id bigint PRIMARY KEY)")
        connection.execute("INSERT INTO shops__1 VALUES (1)")
        with closing(PostgresReader(address, DEFINITION, 1)) as reader:
            assert reader.get({"id": 1}) == {"id": 1}
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name LIKE 'headrace view%' AND datname = 'read_again'"
            )
            with pytest.raises(ViewUnavailable):
                reader.get({"id": 1})
            assert reader.get({"id": 1}) == {"id": 1}
