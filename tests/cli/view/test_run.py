"""`headrace view run`: what it shows, and a whole life of a view on the command line."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from rich.console import Console

from headrace.cli.view.run import StateLines, render
from headrace.views.catalog import ViewState, ViewStatus
from tests.cli.conftest import COMMAND, started
from tests.cli.typed_json import json_problems

WAIT_S = 240.0


def test_table_shows_the_views(capsys: pytest.CaptureFixture[str]) -> None:
    running = ViewStatus(state=ViewState.RUNNING, version=2, rows_in=1234, lag=5)
    failed = ViewStatus(state=ViewState.FAILED, error="[no] markup")
    Console(width=200).print(render(["users", "orders"], [running, failed]))
    shown = capsys.readouterr().out
    assert "1,234" in shown
    assert "failed [no] markup" in shown


def test_lines_show_each_change_of_a_state_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = StateLines(["users"])
    building = ViewStatus(state=ViewState.BUILDING, version=1)
    lines.show([building])
    lines.show([building])
    lines.show([ViewStatus(state=ViewState.FAILED, version=1, error="why")])
    assert capsys.readouterr().out.splitlines() == [
        "view users: building, version 1",
        "view users: failed, version 1, why",
    ]


@pytest.mark.slow
def test_view_runs_until_ctrl_c_and_is_rebuilt_beside(
    environment: dict[str, str], producer: Producer, topic: str, tmp_path: Path
) -> None:
    data = ["--data-dir", str(tmp_path)]
    environment = {**environment, "HEADRACE_PIPELINE_MASTER": "local[2]"}

    def view(*arguments: str) -> str:
        command = [*COMMAND, "view", *arguments, *data]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=WAIT_S
        ).stdout

    def send(*rows: dict[str, Any]) -> None:
        for row in rows:
            value = {"op": "c", "before": None, "after": row, "ts_ms": 1, "source": {"ts_ms": 1}}
            producer.produce(topic, key=json.dumps({"id": row["id"]}), value=json.dumps(value))
        assert producer.flush(60) == 0

    def count() -> int | None:
        try:
            with closing(sqlite3.connect(tmp_path / "views.db")) as database:
                return int(database.execute("SELECT count(*) FROM users").fetchone()[0])
        except sqlite3.OperationalError:
            return None

    def await_count(wanted: int) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while count() != wanted:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)

    send({"id": 1, "city": "Oslo"})
    view(
        "create",
        "users",
        "--from",
        topic,
        "--key",
        "id",
        "--schema",
        f"{topic}=id BIGINT NOT NULL, city STRING",
    )
    with started("view", "run", *data, environment=environment) as process:
        await_count(1)
        rebuilt = view("rebuild", "users", "--format", "json")
        assert json_problems("view rebuild", rebuilt) == []
        assert json.loads(rebuilt)[0]["version"] == 2
        send({"id": 2, "city": "Oslo"})
        await_count(2)
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 130
    (listed,) = json.loads(view("list", "--format", "json"))
    assert (listed["version"], listed["state"]) == (2, "stopped")
    assert os.listdir(tmp_path / "jobs") == ["view.users.2"]
