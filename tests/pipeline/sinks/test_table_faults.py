"""The `Table` sink when things go wrong around it: servers restart, writers are killed, files are locked."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks import table_sqlite
from headrace.pipeline.sinks.sink import RefusedRow
from headrace.pipeline.sinks.table import Table
from headrace.testing.postgres import PostgresServer
from headrace.testing.requirements import require_postgres
from tests.pipeline.sinks.databases import Batches, Database, Postgres, Sqlite, schema_of
from tests.pipeline.sinks.table_process import PLACES

SCHEMA = schema_of(id="string", n="long")
PATIENCE_S = 60.0
KILLS = 3


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return Sqlite(tmp_path / "views.db")
    return Postgres(request.getfixturevalue("postgres").create_database(f"d{uuid.uuid4().hex[:12]}"))


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """One that the test may stop."""
    require_postgres()
    with PostgresServer() as server:
        yield server


def test_killed_writer_leaves_whole_batches_and_goes_on_behind_them(database: Database) -> None:
    seen = -1
    for _ in range(KILLS):
        command = [sys.executable, "-m", "tests.pipeline.sinks.table_process", database.at]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            wait_for_batch(database, seen + 1)
            time.sleep(random.random() / 5)
            process.kill()
        wait_alone(database)
        counts = database.query(
            "SELECT batch, count(*), count(DISTINCT place) FROM batches GROUP BY 1 ORDER BY 1"
        )
        seen = len(counts) - 1
        assert counts == [(batch, PLACES, PLACES) for batch in range(seen + 1)]
        (fence,) = database.query("SELECT batch_id FROM headrace_fences WHERE job = 'rows'")
        assert fence == (seen,)
        assert_totals_are_the_fence(database)


def assert_totals_are_the_fence(database: Database) -> None:
    fences = database.query("SELECT batch_id FROM headrace_fences WHERE job = 'totals'")
    totals = database.query("SELECT place, total FROM totals ORDER BY 1")
    if fences:
        assert totals == [(place, fences[0][0] + 1) for place in range(PLACES)]
    else:
        assert totals == []


def wait_for_batch(database: Database, batch_id: int) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while database.query(f"SELECT count(*) FROM batches WHERE batch >= {batch_id}") == [(0,)]:
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def wait_alone(database: Database) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while database.has_others():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_restart_of_postgres_under_a_writer_costs_no_row_and_doubles_none(
    own_postgres: PostgresServer, end: str
) -> None:
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


def test_postgres_that_is_not_there_is_a_clear_error() -> None:
    sink = Table("t", key="id", at="postgresql://shop:secret@127.0.0.1:1/shop")
    with pytest.raises(SinkUnavailable, match=r"PostgreSQL at 127\.0\.0\.1:1/shop") as error:
        sink.open("job", SCHEMA)
    assert "secret" not in str(error.value)


def test_readers_see_the_old_rows_while_all_are_replaced(database: Database) -> None:
    """From the middle of the transaction: a reader neither waits nor sees half of it."""
    schema = schema_of(id="string", n="long")
    with closing(Batches(Table("t", key="id", mode="replace", at=database.at), schema)) as table:
        table.write(("a", 1), ("b", 1))
        seen = []

        def look(rows: object) -> None:
            seen.append(database.query("SELECT id, n FROM t ORDER BY id"))

        table.refused = Watched(look)
        table.write(("a", 2), (None, 2))
        assert seen == [[("a", 1), ("b", 1)]]
        assert database.query("SELECT id, n FROM t") == [("a", 2)]


class Watched(list[RefusedRow]):
    """Refused rows, and a look at the table at the moment when they are told."""

    def __init__(self, look: object) -> None:
        super().__init__()
        self._look = look

    def extend(self, rows: object) -> None:
        assert callable(self._look)
        self._look(rows)


def test_locked_sqlite_is_a_clear_error_and_the_batch_can_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_sqlite, "BUSY_TIMEOUT_S", 0.1)
    database = Sqlite(tmp_path / "views.db")
    with closing(Batches(Table("t", key="id", at=database.at), SCHEMA)) as table:
        with closing(sqlite3.connect(database.at)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(SinkUnavailable, match="locked"):
                table.write(("a", 1))
        assert table.write_again(("a", 1)) == 1
    assert database.query("SELECT * FROM t") == [("a", 1)]


def test_file_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "views.db").write_text("not a database, whatever its name says " * 100)
    with pytest.raises(BadSink, match="not a database"):
        Table("t", key="id", at=tmp_path / "views.db").open("job", SCHEMA)


def test_table_that_wants_none_of_the_rows_ends_the_batch(postgres: PostgresServer) -> None:
    """A thousand refusals are no accident. Nothing is written, and the error says why."""
    database = Postgres(postgres.create_database(f"d{uuid.uuid4().hex[:12]}"))
    database.execute("CREATE TABLE t (id text PRIMARY KEY, n bigint CHECK (n < 0))")
    with closing(Batches(Table("t", key="id", at=database.at), SCHEMA)) as table:
        with pytest.raises(BadSink, match="refuses more than 1000 rows"):
            table.write(*((str(i), i) for i in range(1100)))
        assert table.writer.applied() is None
    assert database.query("SELECT * FROM t") == []
