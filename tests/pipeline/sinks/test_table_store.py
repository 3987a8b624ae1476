"""A batch of the `Table` sink is one transaction of its database: all of it and its fence, or nothing."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from headrace.pipeline.sinks.sink import RejectedRow
from headrace.pipeline.sinks.table import Table
from tests.pipeline.sinks.databases import Batches, Database, Postgres, Sqlite, schema_of
from tests.pipeline.sinks.table_process import PLACES

PATIENCE_S = 60.0
KILLS = 3


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return Sqlite(tmp_path / "views.db")
    return Postgres(request.getfixturevalue("postgres").create_database(f"d{uuid.uuid4().hex[:12]}"))


def test_killed_writer_leaves_whole_batches_and_continues_after_them(database: Database) -> None:
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


def test_readers_see_the_old_rows_while_all_are_replaced(database: Database) -> None:
    """In the middle of the transaction, a reader neither waits nor sees half of it."""
    schema = schema_of(id="string", n="long")
    with closing(Batches(Table("t", key="id", mode="replace", at=database.at), schema)) as table:
        table.write(("a", 1), ("b", 1))
        seen = []

        def look(rows: object) -> None:
            seen.append(database.query("SELECT id, n FROM t ORDER BY id"))

        table.rejected = Watched(look)
        table.write(("a", 2), (None, 2))
        assert seen == [[("a", 1), ("b", 1)]]
        assert database.query("SELECT id, n FROM t") == [("a", 2)]


class Watched(list[RejectedRow]):
    """Rejected rows, and a look at the table at the moment when they are reported."""

    def __init__(self, look: object) -> None:
        super().__init__()
        self._look = look

    def extend(self, rows: object) -> None:
        assert callable(self._look)
        self._look(rows)
