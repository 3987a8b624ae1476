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

import pytest
from confluent_kafka import Producer

from headrace.testing.requirements import require_java
from headrace.views.catalog import Views
from headrace.views.points import Point
from tests.faults.view_rebuild import KILL_VIEW_VARIABLE

RUN_S_MAX = 300.0
ROOT = Path(__file__).parents[2]
ROWS = {number: "Oslo" if number % 2 else "Rome" for number in range(300)}


class Killed:
    """A view, and the commands on it."""

    def __init__(self, bootstrap: str, data_dir: Path) -> None:
        self.data_dir = data_dir
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
        assert self.view("create", "users", "--from", self._topic, "--key", "id", "--schema", schema) == 0
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
        with closing(sqlite3.connect(self.data_dir / "views.db")) as database:
            return dict(database.execute("SELECT id, city FROM users").fetchall())


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_rebuild_killed_at_each_point_leaves_a_whole_version_and_is_completed(
    bootstrap: str, tmp_path: Path
) -> None:
    require_java()
    killed = Killed(bootstrap, tmp_path)
    folder = Views(tmp_path).folder("users")
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
    assert os.listdir(tmp_path / "jobs") == [f"view.users.{record.current}"]
