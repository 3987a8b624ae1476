"""`headrace view query`, `follow` and `serve`, in processes of their own, on views in SQLite."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.kafka.position import Position
from headrace.views.catalog import Views
from tests.cli.conftest import Headrace, next_line, started
from tests.cli.typed_json import json_problems
from tests.contract.view_store_contract import TOPIC, Bench, user
from tests.views.written_views import sqlite_bench


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    with sqlite_bench(tmp_path, request) as bench:
        Views(tmp_path).create(bench.definition())
        bench.write(1, [user(1, "Oslo"), user(2, "Rome"), user(3, "Oslo")])
        bench.store().switch(1)
        yield bench


@pytest.fixture
def view(headrace: Headrace, bench: Bench) -> Headrace:
    def call(command: str, *arguments: str, code: int = 0) -> Any:
        return headrace("view", command, *arguments, "--data-dir", str(bench.lab.folder), code=code)

    return call


def following(bench: Bench, *arguments: str) -> Any:
    return started("view", "follow", "users", *arguments, "--data-dir", str(bench.lab.folder))


def stop(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(30)


def test_rows_are_shown_as_table_json_and_csv(view: Headrace) -> None:
    selection = "WHERE city = 'Oslo' ORDER BY id DESC LIMIT 1"
    shown = view("query", "users", selection)
    assert [line.split() for line in shown.lines if "3" in line] == [["3", "Oslo"]]
    assert "more rows: --page" in shown.err
    as_json = view("query", "users", selection, "--format", "json").out
    assert json_problems("view query", as_json) == []
    found = json.loads(as_json)
    assert found["rows"] == [{"id": 3, "city": "Oslo"}]
    assert Position.from_token(found["position"]) == Position({TOPIC: {0: 100}})
    second = view("query", "users", selection, "--page", found["next"], "--format", "csv")
    assert list(csv.DictReader(io.StringIO(second.out))) == [{"id": "1", "city": "Oslo"}]


def test_selection_without_rows_is_no_error(view: Headrace) -> None:
    assert view("query", "users", "WHERE id > 99").out == "no rows\n"
    assert view("query", "users", "WHERE id > 99", "--format", "csv").out == ""


def test_query_that_is_behind_says_how_far_and_fails(view: Headrace) -> None:
    token = Position({TOPIC: {0: 103}}).token()
    failed = view("query", "users", "--at-least", token, "--wait", "0s", code=1)
    assert f"{TOPIC}-0 by 3" in failed.err
    assert view("query", "users", "--at-least", Position({TOPIC: {0: 100}}).token()).code == 0


def test_wrong_queries_are_rejected_with_a_hint(view: Headrace) -> None:
    assert "did you mean city" in view("query", "users", "WHERE ctiy = 'Oslo'", code=1).err
    assert "did you mean users" in view("query", "usrs", code=1).err
    assert "--to search" in view("query", "users", "--search", "oslo", code=1).err


def test_reader_is_told_that_the_view_is_rebuilt(bench: Bench, view: Headrace) -> None:
    folder = Views(bench.lab.folder).folder("users")
    folder.write_record(folder.record().with_building(bench.definition()))
    assert "is being rebuilt" in view("query", "users").err


def test_follow_shows_the_result_and_each_change_until_it_is_stopped(bench: Bench) -> None:
    with following(bench, "WHERE city = 'Oslo'") as process:
        assert next_line(process) == '+ {"id": 1, "city": "Oslo"}\n'
        assert next_line(process) == '+ {"id": 3, "city": "Oslo"}\n'
        bench.write(1, [user(1, "Rome"), user(4)], batch=1)
        assert next_line(process) == '- {"id": 1, "city": "Oslo"}\n'
        assert next_line(process) == '+ {"id": 4, "city": "Oslo"}\n'
        assert stop(process) == 130


def test_follow_as_json_has_a_step_on_each_line_and_resumes(bench: Bench) -> None:
    with following(bench, "--format", "json") as process:
        line = next_line(process)
        assert json_problems("view follow", line) == []
        first = json.loads(line)
        assert (first["is_snapshot"], len(first["changes"])) == (True, 3)
        assert stop(process) == 130
    with following(bench, "--format", "json", "--resume", first["resume"]) as process:
        again = json.loads(next_line(process))
        assert (again["is_snapshot"], again["changes"]) == (False, [])


def test_views_are_served_until_ctrl_c_also_with_a_follower(bench: Bench) -> None:
    with started("view", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(bench.lab.folder)) as process:
        ready, _, address = next_line(process).strip().partition(" at ")
        assert ready == "headrace views ready"
        found = httpx.get(f"{address}/views/users/rows", params={"where": "id = 2"}).json()
        assert found["rows"] == [{"id": 2, "city": "Rome"}]
        with httpx.stream("GET", f"{address}/views/users/follow") as response:
            assert any(line.startswith("data: ") for line in response.iter_lines())
            assert stop(process) == 130


def test_serve_is_not_open_to_other_machines_by_accident(view: Headrace) -> None:
    assert "--insecure" in view("serve", "--listen", "0.0.0.0:0", code=1).err
