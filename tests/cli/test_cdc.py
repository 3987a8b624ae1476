"""`headrace cdc` on a real broker and a SQLite file."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.cdc.conftest import committed_records
from tests.cli.conftest import Headrace, started
from tests.cli.typed_json import json_problems

WAIT_S = 60.0


@pytest.fixture
def name() -> str:
    return f"cli{uuid.uuid4().hex[:8]}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "notes.db"
    run(path, "CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT)", "INSERT INTO notes VALUES (1, 'a')")
    return path


def run(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.fixture
def cdc(headrace: Headrace, tmp_path: Path) -> Headrace:
    def call(command: str, *arguments: str, code: int = 0) -> Any:
        return headrace("cdc", command, *arguments, "--data-dir", str(tmp_path / "data"), code=code)

    return call


def ops(bootstrap: str, topic: str) -> list[str | None]:
    return [value and value["op"] for _, value in committed_records(bootstrap, topic)]


def test_capture_is_added_run_shown_and_removed(cdc: Headrace, name: str, file: Path, bootstrap: str) -> None:
    added = cdc("add", name, "--from", f"sqlite:///{file}", "--format", "json").out
    assert json_problems("cdc add", added) == []
    assert json.loads(added) == {"name": name, "tables": ["notes"]}
    assert "1 events" in cdc("run", "--once").err
    run(file, "UPDATE notes SET title = 'b'")
    cdc("run", name, "--once")
    assert ops(bootstrap, f"{name}.notes") == ["r", "u"]

    listed = cdc("list", "--format", "json").out
    assert json_problems("cdc list", listed) == []
    assert json.loads(listed)[0]["state"] == "stopped"
    shown = cdc("status", name, "--format", "json").out
    assert json_problems("cdc status", shown) == []
    assert "notes.db" in cdc("status", name).out

    removed = cdc("remove", name, "--format", "json").out
    assert json_problems("cdc remove", removed) == []
    assert "no captures yet" in cdc("list").out
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'headrace%'").fetchall() == []
    connection.close()


def test_running_capture_stops_with_ctrl_c_and_goes_on(
    cdc: Headrace, name: str, file: Path, bootstrap: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    cdc("add", name, "--from", f"sqlite:///{file}")
    data_dir = str(tmp_path / "data")
    with started("cdc", "run", "--data-dir", data_dir, environment=environment) as process:
        deadline_s = time.monotonic() + WAIT_S
        while json.loads(cdc("status", name, "--format", "json").out)["events"] < 1:
            assert time.monotonic() < deadline_s
        assert "runs" in cdc("remove", name, code=1).err
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(WAIT_S) == 130
    run(file, "INSERT INTO notes VALUES (2, 'b')")
    cdc("run", "--once")
    assert ops(bootstrap, f"{name}.notes") == ["r", "c"]


def test_paused_capture_does_not_run_until_it_is_resumed(cdc: Headrace, name: str, file: Path) -> None:
    cdc("add", name, "--from", f"sqlite:///{file}")
    assert json_problems("cdc pause", cdc("pause", name, "--format", "json").out) == []
    assert "is paused" in cdc("run", name, "--once", code=1).err
    assert json_problems("cdc resume", cdc("resume", name, "--format", "json").out) == []
    cdc("run", name, "--once")


def test_table_is_read_again_by_the_next_run(cdc: Headrace, name: str, file: Path, bootstrap: str) -> None:
    cdc("add", name, "--from", f"sqlite:///{file}", "--keep", "all")
    cdc("run", "--once")
    assert json_problems("cdc snapshot", cdc("snapshot", name, "notes", "--format", "json").out) == []
    cdc("run", "--once")
    assert ops(bootstrap, f"{name}.notes") == ["r", "r"]
    assert "did you mean notes?" in cdc("snapshot", name, "note", code=1).err


def test_outbox_is_created_added_and_published(
    headrace: Headrace, cdc: Headrace, name: str, file: Path, bootstrap: str
) -> None:
    shown = headrace("cdc", "outbox", "--for", "sqlite", "--format", "json").out
    assert json_problems("cdc outbox", shown) == []
    run(file, json.loads(shown)["statement"])
    topic = f"events-{name}.{{aggregatetype}}"
    address = f"sqlite:///{file}"
    added = cdc("add", name, "--from", address, "--outbox", "outbox", "--outbox-topic", topic).out
    assert f"added capture {name}: outbox\n" in added
    run(file, "INSERT INTO outbox VALUES ('e1', 'order', '7', 'paid', '{\"total\": 9}', NULL)")
    run(file, "INSERT INTO outbox VALUES ('e2', 'no topic', '7', 'paid', '{}', NULL)")
    cdc("run", name, "--once")
    assert committed_records(bootstrap, f"events-{name}.order") == [(7, {"total": 9})]
    status = json.loads(cdc("status", name, "--format", "json").out)
    assert (status["dead_letters"], status["state"]) == (1, "stopped")
    cdc("remove", name)


def test_outbox_that_cannot_be_one_is_rejected_with_the_remedy(
    headrace: Headrace, cdc: Headrace, name: str, file: Path
) -> None:
    address = f"sqlite:///{file}"
    assert "no column aggregatetype" in cdc("add", name, "--from", address, "--outbox", "notes", code=1).err
    missing = cdc("add", name, "--from", address, "-t", "*", "--outbox", "note", code=1).err
    assert "there is no table note for the outbox" in missing
    assert "notes" in missing
    wrong = cdc("add", name, "--from", address, "--outbox", "notes", "--outbox-topic", "{n}", code=1).err
    assert "{n} is not known" in wrong
    assert "is not a database with an outbox" in headrace("cdc", "outbox", "--for", "oracle", code=1).err


def test_wrong_input_is_an_error_with_the_remedy(
    cdc: Headrace, name: str, file: Path, tmp_path: Path
) -> None:
    assert "there are no captures" in cdc("run", code=1).err
    assert "no file" in cdc("add", name, "--from", f"sqlite:///{tmp_path / 'missing.db'}", code=1).err
    wrong = cdc("add", name, "--from", "oracle://ann:secret@host/db", code=1).err
    assert "oracle://host/db is not the address" in wrong
    assert "secret" not in wrong
    assert (
        "none of latest, all and both"
        in cdc("add", name, "--from", f"sqlite:///{file}", "--keep", "some", code=2).err
    )
    for texts, message in (
        (("latest", "all"), "latest and all are both for all tables"),
        (("=all",), "'=all' names no table"),
    ):
        options = [word for text in texts for word in ("--keep", text)]
        assert message in cdc("add", name, "--from", f"sqlite:///{file}", *options, code=2).err
    mistyped = cdc("add", name, "--from", f"sqlite:///{file}", "--keep", "note=all", code=1).err
    assert "no captured table matches note" in mistyped
    assert "did you mean notes?" in mistyped
    assert (
        "no table that matches"
        in cdc("add", name, "--from", f"sqlite:///{file}", "--tables", "x*", code=1).err
    )
    assert "there is no capture" in cdc("status", "nothing", code=1).err
