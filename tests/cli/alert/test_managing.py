"""`headrace alert list`, `test`, `keys`, `acknowledge` and `remove`."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.alerts.catalog import Alerts
from tests.alerts.conftest import http as http
from tests.alerts.servers import HttpServer
from tests.cli.conftest import Headrace
from tests.cli.typed_json import json_problems


def test_sample_goes_to_every_target_and_the_exit_code_is_the_outcome(
    headrace: Headrace, topic: str, tmp_path: Path, http: HttpServer
) -> None:
    folder = ("--data-dir", str(tmp_path))
    add = ("alert", "add", "a", "--topic", topic, "--when", "x > 1", "--per", "service", *folder)
    headrace(*add, "--to", http.url, "--to", "https://127.0.0.1:1/hook")
    out = headrace("alert", "test", "a", "--format", "json", *folder, code=1).out
    assert json_problems("alert test", out) == []
    assert [each["is_delivered"] for each in json.loads(out)] == [True, False]
    assert http.bodies()[0]["title"] == "a test: service=sample"


def test_list_acknowledge_and_remove(headrace: Headrace, topic: str, tmp_path: Path) -> None:
    folder = ("--data-dir", str(tmp_path))
    assert "no alerts yet" in headrace("alert", "list", *folder).out
    headrace(
        *(
            "alert",
            "add",
            "a",
            "--topic",
            topic,
            "--when",
            "x > 1",
            "--for",
            "90s",
            "--to",
            "https://host/hook",
            *folder,
        )
    )
    out = headrace("alert", "list", "--format", "json", *folder).out
    assert json_problems("alert list", out) == []
    assert (json.loads(out)[0]["condition"], json.loads(out)[0]["firing"]) == ("x > 1, for 90s", 0)
    assert "next start" in headrace("alert", "acknowledge", "a", *folder).out
    (request,) = Alerts(tmp_path).requests()
    assert (request.alert, bool(request.by)) == ("a", True)
    headrace("alert", "remove", "a", *folder)
    for command in ("remove", "show", "test", "acknowledge"):
        assert "no alert a" in headrace("alert", command, "a", *folder, code=1).err


def test_keys_are_made_once(headrace: Headrace, tmp_path: Path) -> None:
    folder = ("--data-dir", str(tmp_path))
    assert "--contact" in headrace("alert", "keys", *folder, code=1).err
    first = headrace("alert", "keys", "--contact", "mailto:a@example.com", *folder).out
    out = headrace("alert", "keys", "--format", "json", *folder).out
    assert json_problems("alert keys", out) == []
    assert json.loads(out)["public_key"] == first.strip()
    assert "already" in headrace("alert", "keys", "--contact", "mailto:a@example.com", *folder, code=1).err
