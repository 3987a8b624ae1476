"""The `Table` sink in PostgreSQL: lost connections, rejected rows, and the types of existing columns."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks.table import Table
from headrace.pipeline.sinks.table_postgres import PostgresStore
from headrace.pipeline.sinks.table_schema import Column, Kind
from headrace.testing.postgres import PostgresServer
from headrace.testing.requirements import require_postgres
from tests.pipeline.sinks.databases import Batches, Postgres, schema_of

SCHEMA = schema_of(id="string", n="long")
PATIENCE_S = 60.0


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """One that the test may stop."""
    require_postgres()
    with PostgresServer() as server:
        yield server


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_restart_of_postgres_loses_and_repeats_no_row(own_postgres: PostgresServer, end: str) -> None:
    """The server goes while batches are written; the job does what jobs do, and tries the same batch again."""
    database = Postgres(own_postgres.address)
    table = Batches(Table("t", key="id", merge={"n": "sum"}, at=own_postgres.address), SCHEMA)
    is_restarted, failures = threading.Event(), 0

    def restart() -> None:
        getattr(own_postgres, end)()
        own_postgres.start()
        is_restarted.set()

    thread = threading.Thread(target=restart)
    deadline_s = time.monotonic() + PATIENCE_S
    batches = 0
    try:
        while not (is_restarted.is_set() and failures and batches > 20):
            table.batch_id = batches
            if batches == 5 and not thread.ident:
                thread.start()
            try:
                table.write_again(("a", 1), ("b", 2))
                batches += 1
            except SinkUnavailable:
                failures += 1
                assert time.monotonic() < deadline_s
                time.sleep(0.02)
    finally:
        thread.join(PATIENCE_S)
        table.close()
    assert database.query("SELECT id, n FROM t ORDER BY id") == [("a", batches), ("b", 2 * batches)]


def test_unreachable_postgres_is_unavailable() -> None:
    sink = Table("t", key="id", at="postgresql://shop:secret@127.0.0.1:1/shop")
    with pytest.raises(SinkUnavailable, match=r"PostgreSQL at 127\.0\.0\.1:1/shop") as error:
        sink.open("job", SCHEMA)
    assert "secret" not in str(error.value)


def test_table_that_rejects_too_many_rows_fails_the_batch(postgres: PostgresServer) -> None:
    """Nothing is written, and the error has the reason."""
    database = Postgres(postgres.create_database(f"d{uuid.uuid4().hex[:12]}"))
    database.execute("CREATE TABLE t (id text PRIMARY KEY, n bigint CHECK (n < 0))")
    with closing(Batches(Table("t", key="id", at=database.at), SCHEMA)) as table:
        with pytest.raises(BadSink, match="rejects more than 1000 rows"):
            table.write(*((str(i), i) for i in range(1100)))
        assert table.writer.applied() is None
    assert database.query("SELECT * FROM t") == []


@pytest.mark.parametrize(
    ("kind", "existing", "holds"),
    [
        (Kind.INTEGER, "integer", True),
        (Kind.INTEGER, "bigint", True),
        (Kind.INTEGER, "smallint", False),
        (Kind.BIGINT, "numeric", True),
        (Kind.DOUBLE, "real", False),
        (Kind.TEXT, "character varying(9)", True),
        (Kind.TEXT, "inet", True),
        (Kind.TEXT, "bigint", False),
        (Kind.TEXT, "numeric(10,2)", False),
        (Kind.JSON, "text", True),
        (Kind.TIMESTAMP, "timestamp without time zone", False),
    ],
)
def test_existing_column_holds_the_values_or_rejects_single_rows(
    kind: Kind, existing: str, holds: bool
) -> None:
    assert PostgresStore.can_hold(existing, Column(name="c", kind=kind)) is holds


@pytest.mark.parametrize(
    ("existing", "holds"),
    [
        ("numeric", True),
        ("numeric(10,2)", True),
        ("numeric(12,3)", True),
        ("numeric(10,3)", False),
        ("numeric(12,1)", False),
    ],
)
def test_decimal_needs_all_its_digits(existing: str, holds: bool) -> None:
    assert (
        PostgresStore.can_hold(existing, Column(name="c", kind=Kind.DECIMAL, precision=10, scale=2)) is holds
    )


def test_row_with_nul_is_rejected_alone(postgres: PostgresServer) -> None:
    database = Postgres(postgres.create_database(f"d{uuid.uuid4().hex[:12]}"))
    database.execute("CREATE TABLE t (id text PRIMARY KEY, n bigint CHECK (n < 9))")
    with closing(Batches(Table("t", key="id", at=database.at), SCHEMA)) as table:
        assert table.write(("a", 1), ("b\0", 2), ("c", 3), ("d", 9)) == 2
        reasons = {each.row["id"]: each.reason for each in table.rejected}
    assert sorted(reasons) == ["b\0", "d"]
    assert "NUL" in reasons["b\0"]
    assert database.query("SELECT id, n FROM t ORDER BY id") == [("a", 1), ("c", 3)]


def test_table_may_be_in_a_schema(postgres: PostgresServer) -> None:
    database = Postgres(postgres.create_database(f"d{uuid.uuid4().hex[:12]}"))
    database.execute("CREATE SCHEMA shop")
    with closing(Batches(Table("shop.t", key="id", at=database.at), SCHEMA)) as table:
        table.write(("a", 1))
    assert database.query("SELECT id, n FROM shop.t") == [("a", 1)]
