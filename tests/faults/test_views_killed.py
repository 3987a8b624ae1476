"""`kill -9` at each point of a rebuild: one whole version is served, and the next rebuild completes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path
from typing import get_args

import psycopg
import pytest
from confluent_kafka import Producer

from headrace.testing.postgres import PostgresServer
from headrace.testing.requirements import require_java
from headrace.views.catalog import Views
from headrace.views.points import Point
from headrace.views.stores.postgresql import PostgresViews
from tests.faults.postgres_switch import Step, definition
from tests.faults.view_rebuild import KILL_VIEW_VARIABLE

RUN_S_MAX = 300.0
ROOT = Path(__file__).parents[2]
ROWS = {number: "Oslo" if number % 2 else "Rome" for number in range(300)}


class Killed:
    """A view, and the commands on it."""

    def __init__(self, bootstrap: str, data_dir: Path, *, postgres: str = "") -> None:
        self.data_dir = data_dir
        self._postgres = postgres
        self._environment = {
            **os.environ,
            "HEADRACE_BOOTSTRAP": bootstrap,
            "HEADRACE_PIPELINE_MASTER": "local[1]",
            "HEADRACE_PIPELINE_ROWS_PER_BATCH_MAX": "100",
        }
        self._topic = f"shop{uuid.uuid4().hex[:8]}.users"
        producer = Producer({"bootstrap.servers": bootstrap})
        for number, city in ROWS.items():
            row = {"id": number, "city": city}
            change = {"op": "c", "before": None, "after": row, "ts_ms": 1, "source": {"ts_ms": 1}}
            producer.produce(self._topic, key=json.dumps({"id": number}), value=json.dumps(change))
        assert producer.flush(60) == 0
        schema = f"{self._topic}=id BIGINT NOT NULL, city STRING"
        options = ["--from", self._topic, "--key", "id", "--schema", schema]
        options += ["--to", "postgresql", "--at", postgres] if postgres else []
        assert self.view("create", "users", *options) == 0
        assert self.view("run", "--once") == 0

    def view(self, *arguments: str, kill_at: str = "") -> int:
        command = [sys.executable, "-m", "tests.faults.view_rebuild", "view", *arguments]
        process = subprocess.Popen(
            [*command, "--data-dir", str(self.data_dir)],
            env={**self._environment, KILL_VIEW_VARIABLE: kill_at},
            cwd=ROOT,
        )
        return process.wait(RUN_S_MAX)

    def rows(self) -> dict[int, str]:
        """Of the served version, as a reader without Headrace sees it."""
        if self._postgres:
            with psycopg.connect(self._postgres) as connection:
                found: list[tuple[int, str]] = connection.execute("SELECT id, city FROM users").fetchall()
                return dict(found)
        with closing(sqlite3.connect(self.data_dir / "views.db")) as database:
            return dict(database.execute("SELECT id, city FROM users").fetchall())


@pytest.fixture(params=["sqlite", "postgresql"])
def killed(request: pytest.FixtureRequest, bootstrap: str, tmp_path: Path) -> Killed:
    require_java()
    address = ""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        address = server.create_database(f"d{uuid.uuid4().hex[:10]}")
    return Killed(bootstrap, tmp_path, postgres=address)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_rebuild_killed_at_each_point_leaves_a_whole_version_and_is_completed(killed: Killed) -> None:
    folder = Views(killed.data_dir).folder("users")
    for point in get_args(Point):
        before = folder.served()[1]
        assert killed.view("rebuild", "users", kill_at=point) == -signal.SIGKILL, point
        assert killed.rows() == ROWS, point
        served = folder.served()[1]
        is_switched = get_args(Point).index(point) >= get_args(Point).index("store-switched")
        assert (served != before) is is_switched, point
        if point == "store-switched":
            # The process that runs the view completes the switch, too.
            assert killed.view("run", "--once") == 0
            assert folder.record().current == served
    assert killed.view("rebuild", "users") == 0
    assert killed.rows() == ROWS
    record = folder.record()
    assert (record.building, record.dropping) == (None, {})
    assert folder.store().versions() == [record.current]
    assert os.listdir(killed.data_dir / "jobs") == [f"view.users.{record.current}"]


@pytest.mark.parametrize("step", get_args(Step))
def test_switch_in_postgresql_killed_at_a_step_is_done_or_not_and_can_be_repeated(
    postgres: PostgresServer, tmp_path: Path, step: Step
) -> None:
    address = postgres.create_database(f"d{uuid.uuid4().hex[:10]}")
    with psycopg.connect(address, autocommit=True) as reader:
        for version, city in ((1, "Oslo"), (2, "Rome")):
            reader.execute(f"CREATE TABLE users__{version} AS SELECT 7 AS id, '{city}' AS city".encode())
        reader.execute("CREATE INDEX by_city__1 ON users__1 (city)")
        with closing(PostgresViews(definition(address), tmp_path)) as store:
            store.switch(1)
            command = [sys.executable, "-m", "tests.faults.postgres_switch", address, "2", step]
            assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
            rows = reader.execute("SELECT city FROM users").fetchall()
            is_switched = step == "committed"
            assert (store.served(), rows) == ((2, [("Rome",)]) if is_switched else (1, [("Oslo",)]))
            store.switch(2)
            assert (store.served(), store.versions()) == (2, [1, 2])
        assert reader.execute("SELECT city FROM users").fetchall() == [("Rome",)]
        indexes = reader.execute("SELECT indexname FROM pg_indexes WHERE tablename = 'users__2'").fetchall()
        assert indexes == [("by_city__2",)]
