"""Rows of the outbox are deleted, in whichever database they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.outbox import emptying as module
from headrace.cdc.outbox.definition import Outbox
from headrace.cdc.outbox.emptying import OutboxRows
from headrace.testing.postgres import PostgresServer
from tests.cdc.outbox.conftest import Database, event_id


@pytest.fixture
def rows(database: Database) -> OutboxRows:
    return OutboxRows(database.address, Outbox(table=database.table))


def left(database: Database) -> list[int]:
    return [int(payload) for (payload,) in database.rows("SELECT payload FROM outbox ORDER BY id")]


def test_rows_are_deleted_in_several_transactions_and_others_stay(
    database: Database, rows: OutboxRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DELETE_ROWS_MAX", 2)
    database.insert(*((number, "order", "7", str(number)) for number in range(1, 7)))
    assert rows.delete([event_id(number) for number in (1, 2, 3, 4, 5, 99)])
    assert left(database) == [6]
    rows.close()


def test_locked_rows_are_left_for_the_next_time(database: Database, rows: OutboxRows) -> None:
    database.insert((1, "order", "7", "1"))
    with database.connect() as connection:
        connection.cursor().execute("UPDATE outbox SET type = 'x'")
        assert not rows.delete([event_id(1)])
        connection.rollback()
    assert rows.delete([event_id(1)])
    assert left(database) == []
    rows.close()


def test_table_without_the_columns_of_an_outbox_is_rejected(database: Database, rows: OutboxRows) -> None:
    rows.check()
    database.run("ALTER TABLE outbox RENAME COLUMN aggregateid TO aggregate")
    with pytest.raises(BadCapture, match="has no column aggregateid"):
        rows.check()
    rows.close()


def test_missing_permission_is_named_with_the_statement_that_grants_it(
    postgres: PostgresServer, name: str
) -> None:
    import psycopg

    address = postgres.create_database(name)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN".encode())
        connection.execute(
            "CREATE TABLE outbox (id TEXT PRIMARY KEY, aggregatetype TEXT, aggregateid TEXT, type TEXT, payload TEXT)"
        )
        connection.execute(f"GRANT SELECT ON outbox TO {name}".encode())
        limited = address.replace("headrace@", f"{name}@")
        rows = OutboxRows(limited, Outbox(table="public.outbox"))
        with pytest.raises(BadCapture, match=r"may not delete from outbox public\.outbox") as rejected:
            rows.check()
        assert 'GRANT SELECT, DELETE ON "public"."outbox"' in rejected.value.hint
        OutboxRows(limited, Outbox(table="public.outbox", delete=False)).check()
        connection.execute("DROP TABLE outbox")
        connection.execute(f"DROP ROLE {name}".encode())


def test_missing_server_is_unavailable() -> None:
    rows = OutboxRows("postgresql://headrace@127.0.0.1:1/shop", Outbox(table="public.outbox"))
    with pytest.raises(SourceUnavailable):
        rows.delete(["1"])


def test_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(BadCapture, match="there is no file"):
        OutboxRows(f"sqlite:///{tmp_path / 'no.db'}", Outbox(table="outbox")).check()
