"""`headrace webhook in`: sources are added, shown without secrets, rotated, tested and removed."""

from __future__ import annotations

import json
import shlex
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.webhooks.incoming.source import HmacRule, sources
from tests.cli.conftest import Headrace, next_line, started
from tests.cli.typed_json import json_problems

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Run:
    def __init__(self, headrace: Headrace, data_dir: Path) -> None:
        self._headrace = headrace
        self.data_dir = data_dir

    def __call__(self, command: str, *arguments: str, **options: Any) -> Any:
        return self._headrace(
            "webhook", "in", command, *arguments, "--data-dir", str(self.data_dir), **options
        )

    def json(self, command: str, *arguments: str, **options: Any) -> Any:
        out = self(command, *arguments, "--format", "json", **options).out
        assert json_problems(f"webhook in {command}", out) == []
        return json.loads(out)


@pytest.fixture
def run(headrace: Headrace, tmp_path: Path) -> Run:
    return Run(headrace, tmp_path)


def test_source_is_added_listed_shown_and_removed_and_its_secret_never_shown(run: Run) -> None:
    added = run.json(
        "add", "github", "-t", "pushes", "--secret-stdin", "--key-field", "repository.id", stdin=SECRET
    )
    assert added == {
        "name": "github",
        "kind": "github",
        "topic": "pushes",
        "path": "/webhooks/github",
        "secret": None,
    }
    file = run.data_dir / "webhooks" / "in" / "github.json"
    assert SECRET in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = run.json("list")
    shown = run.json("show", "github")
    assert [each["secrets"] for each in listed] == [1]
    assert shown["key"] == "field repository.id"
    assert shown["secrets"] == ["until it is rotated"]
    texts = [str(listed), str(shown), run("list").out, run("show", "github").out]
    assert not any(SECRET in each or SECRET.removeprefix("whsec_") in each for each in texts)
    assert "its topic stays" in run.json("remove", "github")["done"]
    assert json.loads(run("list", "--format", "json").out) == []
    assert "no webhooks in yet" in run("list").out


def test_kind_is_that_of_the_name_or_standard_webhooks(run: Run) -> None:
    for name, kind in (("stripe", "stripe"), ("partner", "standard")):
        assert run.json("add", name, "-t", "t", "--secret-stdin", stdin=SECRET)["kind"] == kind


def test_generated_secret_is_printed_once(run: Run) -> None:
    added = run.json("add", "partner", "-t", "t", "--generate-secret")
    assert added["secret"].startswith("whsec_")
    assert added["secret"] not in run("show", "partner").out


def test_every_option_is_in_the_definition(run: Run) -> None:
    run(
        *("add", "shop", "--kind", "plain-hmac", "-t", "orders", "--secret-stdin"),
        *("--signature-header", "X-Hmac", "--algorithm", "sha512", "--encoding", "base64", "--prefix", "p="),
        *("--signed", "{id}.{timestamp}.{body}", "--timestamp-header", "X-Time", "--id-header", "X-Id"),
        *("--key-header", "X-Shop", "--event-field", "kind", "--header", "X-One", "--header", "X-Two"),
        *("--tolerance", "1m", "--window", "2h", "--body-bytes-max", "5000", "--rate-max", "7"),
        stdin="s3cret",
    )
    found = sources(run.data_dir).get("shop")
    assert found.hmac == HmacRule(
        header="X-Hmac",
        algorithm="sha512",
        encoding="base64",
        prefix="p=",
        signed="{id}.{timestamp}.{body}",
        timestamp_header="X-Time",
    )
    assert (found.key_header, found.event_field, found.id_header) == ("X-Shop", "kind", "X-Id")
    assert (found.tolerance_s, found.window_s) == (60, 7_200)
    assert (found.body_bytes_max, found.rate_per_s_max, found.headers) == (5_000, 7, ("X-One", "X-Two"))


def test_rotation_keeps_the_old_secret_for_a_time(run: Run) -> None:
    run("add", "partner", "-t", "t", "--secret-stdin", stdin=SECRET)
    new = run.json("rotate", "partner", "--generate-secret", "--overlap", "1h")["secret"]
    first, second = run.json("show", "partner")["secrets"]
    assert first == "until it is rotated"
    assert second.startswith("until 20")
    assert [each.text for each in sources(run.data_dir).get("partner").secrets] == [new, SECRET]


def test_wrong_use_is_an_error_with_the_remedy(run: Run, tmp_path: Path) -> None:
    assert "--secret-stdin" in run("add", "partner", "-t", "t", code=1).err
    assert "the secret is empty" in run("add", "partner", "-t", "t", "--secret-stdin", code=1).err
    assert "Standard Webhooks" in run("add", "p", "-t", "t", "--secret-stdin", stdin="no!", code=1).err
    assert "can't be the name" in run("add", "../x", "-t", "t", "--generate-secret", code=1).err
    missing = run("add", "p", "-t", "t", "--secret-file", str(tmp_path / "none"), code=1)
    assert "can't read the secret" in missing.err
    own = run("add", "github", "-t", "t", "--generate-secret", "--prefix", "x=", code=2)
    assert "knows its own signature" in own.err
    run("add", "partner", "-t", "t", "--generate-secret")
    assert "already" in run("add", "partner", "-t", "t", "--generate-secret", code=1).err
    assert "did you mean partner?" in run("show", "partnr", code=1).err
    assert "there is no new secret" in run("rotate", "partner", code=1).err
    assert "can't send" in run("test", "partner", "--url", "http://127.0.0.1:1/x", code=1).err
    (tmp_path / "webhooks" / "in" / "partner.json").write_text("{")
    assert "partner.json is damaged" in run("list", code=1).err


def test_sample_is_received_by_a_gateway_and_so_is_the_command_of_curl(
    run: Run, environment: dict[str, str], name: str
) -> None:
    run("add", "partner", "-t", name, "--secret-stdin", stdin=SECRET)
    run("add", "github", "-t", name, "--secret-stdin", stdin=SECRET)
    arguments = ("gateway", "--listen", "127.0.0.1:0", "--data-dir", str(run.data_dir))
    with started(*arguments, environment=environment) as process:
        gateway = next_line(process).split()[-1]
        url = f"{gateway}/webhooks/partner"
        tested = run.json("test", "partner", "--url", url)
        assert (tested["status"], json.loads(tested["response"])) == (200, {"result": "accepted"})
        ping = run.json("test", "github", "--url", f"{gateway}/webhooks/github")
        assert json.loads(ping["response"]) == {"result": "pong"}
        command = run.json("test", "partner", "--url", url, "--curl")["curl"]
        assert SECRET not in command
        done = subprocess.run([*shlex.split(command), "-s"], capture_output=True, check=True, timeout=60)
        assert json.loads(done.stdout) == {"result": "accepted"}
        run("rotate", "partner", "--generate-secret", "--overlap", "0s")
        stale = subprocess.run([*shlex.split(command), "-s"], capture_output=True, check=True, timeout=60)
        assert json.loads(stale.stdout)["error_code"] == 401
        failed = run("test", "partner", "--url", f"{gateway}/webhooks/other", code=1)
        assert failed.out.startswith("404")
