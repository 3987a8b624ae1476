"""`headrace alert status` and `history` read the log, whoever runs the alerts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as package
from headrace.alerts.key_state import Rule
from tests.alerts.conftest import Lab, wait_until
from tests.cli.conftest import Headrace
from tests.cli.typed_json import json_problems


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    with package.Broker(data_dir=tmp_path / "broker") as broker:
        yield broker.bootstrap


def test_status_and_history_as_json(headrace: Headrace, bootstrap: str, tmp_path: Path) -> None:
    lab = Lab(bootstrap, tmp_path / "data")
    folder = ("--data-dir", str(lab.folder))
    assert "nothing fires" in headrace("alert", "status", *folder).out
    assert "no history yet" in headrace("alert", "history").out
    lab.topic()
    lab.add("errors", "https://127.0.0.1:1/hook", rule=Rule(for_ms=3_600_000))
    with lab.running():
        lab.write({"level": "ERROR", "service": "a\x1b[31m"})
        lab.write_bytes(b"{")
        wait_until(lambda: {"pending", "unreadable"} <= set(lab.events()))
    out = headrace("alert", "status", "--format", "json", *folder).out
    assert json_problems("alert status", out) == []
    found = json.loads(out)
    assert [(each["state"], each["notified"]) for each in found["keys"]] == [("pending", None)]
    assert (found["alerts"][0]["records"], found["alerts"][0]["unreadable"]) == (2, 1)
    out = headrace("alert", "history", "--format", "json", "--key", "service=a*").out
    assert json_problems("alert history", out) == []
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["pending"]
    text = headrace("alert", "history", "--since", "1h", "-n", "1").out
    assert "logs-0@1: " in text
    assert "\x1b" not in headrace("alert", "status", *folder).out
    assert "no alert x" in headrace("alert", "status", "x", *folder, code=1).err
