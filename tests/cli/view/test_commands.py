"""`headrace view` on a real broker and SQLite: create, list, lag, remove."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.testing.ports import free_port
from headrace.views.catalog import Views, ViewState, ViewStatus
from tests.cli.conftest import Headrace, Ran
from tests.cli.typed_json import json_problems


@pytest.fixture
def view(headrace: Headrace, tmp_path: Path) -> Headrace:
    def call(command: str, *arguments: str, code: int = 0) -> Ran:
        return headrace("view", command, *arguments, "--data-dir", str(tmp_path / "data"), code=code)

    return call


@pytest.fixture
def users(producer: Producer, topic: str) -> str:
    """A topic with ten rows in partition 0."""
    for number in range(10):
        row = json.dumps({"id": number, "city": "Oslo"})
        producer.produce(topic, row, key=json.dumps({"id": number}), partition=0)
    assert producer.flush(60) == 0
    return topic


def create(view: Headrace, topic: str, *more: str, code: int = 0) -> Ran:
    schema = f"{topic}=id BIGINT NOT NULL, city STRING"
    return view("create", "users", "--from", topic, "--key", "id", "--schema", schema, *more, code=code)


def test_view_is_created_listed_and_removed(view: Headrace, users: str, tmp_path: Path) -> None:
    created = create(view, users, "--format", "json").out
    assert json_problems("view create", created) == []
    assert json.loads(created) == {"name": "users", "topics": [users], "store": "sqlite"}
    listed = view("list", "--format", "json").out
    assert json_problems("view list", listed) == []
    (found,) = json.loads(listed)
    assert (found["name"], found["version"], found["state"]) == ("users", None, "new")
    lag = view("lag", "--format", "json").out
    assert json_problems("view lag", lag) == []
    first, second = json.loads(lag)
    assert (first["topic"], first["position"], first["end"], first["lag"]) == (users, 0, 10, 10)
    assert first["lag_s"] >= 0
    assert (second["lag"], second["lag_s"]) == (0, None)
    removed = view("remove", "users", "--format", "json").out
    assert json_problems("view remove", removed) == []
    assert "no views yet" in view("list").out
    assert Views(tmp_path / "data").names() == []


def test_definition_is_checked_before_anything_is_created(view: Headrace, topic: str, tmp_path: Path) -> None:
    assert "cannot be the name" in view("create", "Users", "--from", topic, "--key", "id", code=1).err
    assert "has no key" in view("create", "users", "--from", topic, code=1).err
    assert "reads nothing" in view("create", "users", "--key", "id", code=1).err
    missing = view("create", "users", "--from", "no-such-topic", "--key", "id", code=1).err
    assert "no-such-topic" in missing
    assert "'oracle' is none of sqlite" in create(view, topic, "--to", "oracle", code=2).err
    assert "has no =" in create(view, topic, "--option", "nothing", code=2).err
    away = f"postgresql://shop:secret@127.0.0.1:{free_port()}/shop"
    unreachable = create(view, topic, "--to", "postgresql", "--at", away, code=1).err
    assert "PostgreSQL at 127.0.0.1" in unreachable
    assert "secret" not in unreachable
    script = view("create", "users", "--script", "nowhere.py:rows", "--key", "id", code=1).err
    assert "there is no file nowhere.py" in script
    assert Views(tmp_path / "data").names() == []


def test_second_view_of_a_name_and_unknown_names_are_errors(view: Headrace, topic: str) -> None:
    create(view, topic)
    assert "there is a view users already" in create(view, topic, code=1).err
    assert "did you mean users" in view("remove", "user", code=1).err
    assert "there is no view" in view("rebuild", "people", code=1).err


def test_view_that_runs_is_not_removed(view: Headrace, topic: str, tmp_path: Path) -> None:
    create(view, topic)
    folder = Views(tmp_path / "data").folder("users")
    assert folder.lock.take()
    folder.write_status(ViewStatus(state=ViewState.RUNNING, version=1, since_ms=1, error="x"))
    assert "view users runs" in view("remove", "users", code=1).err
    assert "running" in view("list").out
    folder.lock.release()


def test_options_of_one_view_are_rejected_for_several(view: Headrace, topic: str) -> None:
    create(view, topic)
    schema = f"{topic}=id BIGINT NOT NULL"
    view("create", "others", "--from", topic, "--key", "id", "--schema", schema)
    assert "name only one" in view("rebuild", "users", "others", "--sql", "SELECT 1", code=2).err


def test_nothing_to_run_is_an_error(view: Headrace) -> None:
    assert "there are no views" in view("run", code=1).err
