"""The command as a whole: help, lazy imports, unreachable brokers, exit codes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.main import COMMANDS

COMMANDS_WITH_BOOTSTRAP = [
    ["topic", "list"],
    ["topic", "describe", "t"],
    ["group", "list"],
    ["queue", "list"],
    ["produce", "t"],
    ["consume", "t"],
    ["broker", "--check"],
]
LEAVES = [
    *(
        [each]
        for each in COMMANDS
        if each not in ("topic", "group", "queue", "job", "cdc", "edge", "view", "webhook", "alert", "log")
    ),
    *(["topic", each] for each in ("create", "list", "describe", "alter", "delete")),
    *(["group", each] for each in ("list", "describe", "seek", "reset", "delete")),
    *(["queue", each] for each in ("list", "describe", "alter", "delete")),
    *(
        [kind, "dead", each]
        for kind in ("queue", "job")
        for each in ("list", "show", "redrive", "discard", "purge")
    ),
    *(["job", each] for each in ("run", "prepare", "list", "status", "stop", "reset", "explain")),
    *(
        ["cdc", each]
        for each in ("add", "run", "list", "status", "pause", "resume", "snapshot", "remove", "outbox")
    ),
    *(
        ["view", each]
        for each in ("create", "run", "list", "lag", "rebuild", "remove", "query", "follow", "serve")
    ),
    *(
        ["alert", each]
        for each in (
            "add",
            "run",
            "list",
            "show",
            "status",
            "history",
            "acknowledge",
            "test",
            "remove",
            "keys",
        )
    ),
    *(["alert", "silence", each] for each in ("add", "list", "remove")),
    *(["edge", each] for each in ("statsd", "tcp")),
    *(["webhook", "in", each] for each in ("add", "list", "show", "rotate", "remove", "test")),
    *(["edge", "multicast", each] for each in ("publish", "receive")),
    *(["edge", kind, each] for kind in ("zeromq", "nng") for each in ("publish", "subscribe")),
    *(["erase", each] for each in ("key", "continue", "status")),
    *(["log", each] for each in ("dump", "repair")),
]


def headrace(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Without any broker."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return subprocess.run(
        [sys.executable, "-m", "headrace", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**inherited, **environment},
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_help_names_every_command() -> None:
    shown = headrace("--help")

    assert shown.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in shown.stdout


@pytest.mark.parametrize("command", LEAVES, ids=" ".join)
def test_help_of_every_command_has_an_example(command: list[str]) -> None:
    shown = headrace(*command, "--help")

    assert shown.returncode == 0
    assert f"  headrace {' '.join(command)}" in shown.stdout


@pytest.mark.parametrize("command", COMMANDS_WITH_BOOTSTRAP, ids=" ".join)
def test_missing_broker_is_reported_with_a_hint(command: list[str], closed_port: int) -> None:
    address = f"127.0.0.1:{closed_port}"

    failed = headrace(*command, "--bootstrap", address)

    assert failed.returncode == 1
    assert f"no broker answers at {address}" in failed.stderr
    assert "hint: " in failed.stderr
    assert "Traceback" not in failed.stderr


def test_bootstrap_comes_from_flag_before_environment_before_file(closed_port: int, tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text('[client]\nbootstrap = "127.0.0.1:1"\n')
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}

    def tried(*flags: str, **environment: str) -> str:
        command = [sys.executable, "-m", "headrace", "topic", "list", *flags]
        env = {**inherited, **environment}
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, check=False)
        return done.stderr

    assert "no broker answers at 127.0.0.1:1 " in tried()
    assert "no broker answers at 127.0.0.1:2 " in tried(HEADRACE_BOOTSTRAP="127.0.0.1:2")
    given = tried("--bootstrap", f"127.0.0.1:{closed_port}", HEADRACE_BOOTSTRAP="127.0.0.1:2")
    assert f"no broker answers at 127.0.0.1:{closed_port} " in given


@pytest.mark.parametrize("address", ["nowhere", "host:", ":9092", "host:port", "host:99999"])
def test_bad_address_is_rejected(address: str) -> None:
    failed = headrace("topic", "list", "--bootstrap", address)

    assert failed.returncode == 1
    assert "is not an address" in failed.stderr


def test_unknown_command_and_option_are_wrong_usage() -> None:
    assert headrace("topics").returncode == 2
    assert headrace("topic", "list", "--nope").returncode == 2


def test_server_that_is_no_kafka_is_an_error_and_not_a_hang() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        failed = headrace("broker", "--check", "--bootstrap", address, HEADRACE_CLIENT_TIMEOUT_S="2")

    assert failed.returncode == 1
    assert "does not answer a metadata request" in failed.stderr


def test_version_is_the_packages() -> None:
    from importlib.metadata import version

    assert headrace("--version").stdout == f"headrace {version('headrace')}\n"


def test_starting_a_broker_imports_no_client_no_rich_and_no_spark() -> None:
    heavy = ("confluent_kafka", "rich", "pyspark", "pydantic", "pandas")
    program = f"""
import sys
import headrace.cli.main, headrace.cli.broker.commands, headrace.broker.server, typer
typer.main.get_command(headrace.cli.broker.commands.app)
print([name for name in {heavy!r} if name in sys.modules])
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert shown.stdout == "[]\n"
