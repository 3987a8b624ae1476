"""`headrace webhook out`, as a user calls it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from tests.cli.conftest import Headrace, started
from tests.cli.typed_json import json_problems
from tests.webhooks.outgoing.conftest import SECRET, Receiver, receiver, wait_until

__all__ = ["receiver"]

pytestmark = pytest.mark.timeout(180)

Out = Callable[..., str]


@pytest.fixture
def out(headrace: Headrace, tmp_path: Path) -> Out:
    """`headrace webhook out …` with the data folder of the test; `as_json` compares the JSON with its declaration."""

    def run(command: str, *arguments: str, code: int = 0, as_json: bool = False, stdin: str = "") -> str:
        options = ["--format", "json"] if as_json else []
        folder = [] if command == "dead" else ["--data-dir", str(tmp_path)]
        ran = headrace("webhook", "out", command, *arguments, *options, *folder, code=code, stdin=stdin)
        if as_json:
            assert json_problems(f"webhook out {command}", ran.out) == []
        return ran.err if code == 1 and not ran.out else ran.out

    return run


def test_webhook_is_added_delivers_and_is_removed(
    out: Out,
    headrace: Headrace,
    environment: dict[str, str],
    receiver: Receiver,
    topic: str,
    tmp_path: Path,
) -> None:
    where = ["--topic", topic, "--to", receiver.url(), "--allow-inside", "--filter", "amount > 100"]
    added = json.loads(out("add", "big", *where, "--secret-stdin", as_json=True, stdin=SECRET + "\n"))
    assert added == {"name": "big", "source": topic, "to": receiver.url(), "secret": None}
    headrace("produce", topic, stdin='{"amount": 50}\n{"amount": 150}\n')

    command = ("webhook", "out", "run", "--data-dir", str(tmp_path))
    with started(*command, environment=environment) as process:
        wait_until(lambda: receiver.bodies() == [b'{"amount": 150}'])
        wait_until(lambda: "delivered" in out("attempts", "big"))
        process.send_signal(signal.SIGINT)
        shown, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "webhook big: running" in shown
    (received,) = receiver.received()
    Webhook(SECRET).verify(received.body, dict(received.headers))

    (attempt,) = json.loads(out("attempts", "big", as_json=True))
    assert (attempt["outcome"], attempt["status"], attempt["id"]) == ("delivered", 204, received.id)
    (listed,) = json.loads(out("list", as_json=True))
    assert (listed["name"], listed["state"], listed["delivered"]) == ("big", "stopped", 1)
    definition = json.loads(out("show", "big", as_json=True))
    assert (definition["filter"], definition["group"]) == ("amount > 100", "headrace-webhook-big")
    assert definition["skipped"] == 1

    assert json.loads(out("pause", "big", as_json=True)) == {"name": "big", "is_paused": True}
    assert "paused" in out("list")
    assert json.loads(out("resume", "big", as_json=True)) == {"name": "big", "is_paused": False}
    assert "headrace-webhook-big" in headrace("group", "list").out
    assert out("remove", "big") == "removed webhook out big\n"
    assert json.loads(out("list", "--format", "json")) == []
    assert "headrace-webhook-big" not in headrace("group", "list").out


@pytest.mark.parametrize("option", ["--topic", "--queue"])
def test_webhook_without_a_name_has_that_of_what_it_sends(
    out: Out, headrace: Headrace, topic: str, option: str
) -> None:
    named = f"_Big.{topic}"
    headrace("topic", "create", named)
    added = json.loads(
        out("add", option, named, "--to", "https://shop.example/", "--filter", "amount > 100", as_json=True)
    )
    assert (added["name"], added["source"]) == (f"big.{topic}", named)
    assert "already" in out("add", option, named, "--to", "https://shop.example/", code=1)
    assert "--topic" in headrace("webhook", "out", "add", "--to", "https://shop.example/", code=2).err


def test_generated_secret_is_shown_once_and_rotated(out: Out, receiver: Receiver, topic: str) -> None:
    where = ["--topic", topic, "--to", receiver.url(), "--allow-inside", "--header", "X-Key=s3cret"]
    secret = json.loads(out("add", "t", *where, as_json=True))["secret"]
    rotated = json.loads(out("rotate", "t", "--overlap", "1h", as_json=True))
    assert rotated["secrets"] == 2
    for command in ("show", "list"):
        text = out(command, *(["t"] if command == "show" else []))
        assert secret not in text
        assert rotated["secret"] not in text
        assert "s3cret" not in text

    sample = json.loads(out("test", "t", "--value", "{}", as_json=True))
    assert (sample["is_delivered"], sample["status"]) == (True, 204)
    (received,) = receiver.received()
    assert received.headers["x-key"] == "s3cret"
    for each in (secret, rotated["secret"]):
        Webhook(each).verify(received.body, dict(received.headers))


def test_sample_that_is_not_delivered_is_a_failure(out: Out, receiver: Receiver, topic: str) -> None:
    receiver.answers["/hook"] = 503
    out("add", "t", "--topic", topic, "--to", f"{receiver.url()}?token=s3cret", "--allow-inside")
    text = out("test", "t", code=1)
    assert text.startswith(f"HTTP 503 from {receiver.url()} in ")
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--to", "http://127.0.0.1:9/"], "--allow-inside"),
        (["--to", "https://169.254.169.254/"], "metadata"),
        (["--to", "https://ann:s3cret@shop.example/"], "has a user or a password"),
        (["--to", "https://shop.example/", "--filter", "amount >"], "--filter"),
        (["--to", "https://shop.example/", "--parallel", "0"], "--parallel"),
        (["--to", "https://shop.example/", "--queue", "emails"], "needs a topic or a queue"),
    ],
)
def test_wrong_definition_is_an_error_with_the_remedy(
    out: Out, topic: str, options: list[str], problem: str
) -> None:
    text = out("add", "t", "--topic", topic, *options, code=1)
    assert problem in text
    assert "s3cret" not in text
    assert json.loads(out("list", "--format", "json")) == []


def test_unknown_names_are_errors_with_the_nearest_one(out: Out, topic: str) -> None:
    out("add", "orders", "--topic", topic, "--to", "https://shop.example/")
    for command in ("show", "remove", "pause", "resume", "attempts", "test", "rotate", "run"):
        assert "did you mean orders?" in out(command, "order", code=1)
    assert "there is a webhook out orders already" in out(
        "add", "orders", "--topic", topic, "--to", "https://shop.example/", code=1
    )
    assert "there is no topic" in out(
        "add", "other", "--topic", f"{topic}-missing", "--to", "https://shop.example/", code=1
    )
