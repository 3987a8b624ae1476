"""`headrace broker`: its options, its health check, and its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Headrace

READY = "headrace broker ready at "
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}


def command_of(*options: str) -> list[str]:
    return [*COMMAND, "broker", *options]


@contextmanager
def running(
    tmp_path: Path, *options: str, environment: dict[str, str] | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A broker on a free port: its address and its process, which is ended if the test has not done so."""
    env = {**ENVIRONMENT, **(environment or {})}
    command = command_of("--data-dir", str(tmp_path / "data"), *options)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env, cwd=tmp_path) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith(READY), f"{line}{process.stderr.read() if process.stderr else ''}"
            yield line.removeprefix(READY).strip(), process
        finally:
            process.kill()


def run(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A call that is expected to end by itself."""
    return subprocess.run(
        command_of(*options),
        capture_output=True,
        text=True,
        timeout=60,
        env=ENVIRONMENT,
        cwd=tmp_path,
        check=False,
    )


def test_check_reports_a_healthy_broker_in_one_line(headrace: Headrace) -> None:
    checked = headrace("broker", "--check")

    assert checked.out.startswith("healthy: ")
    assert len(checked.lines) == 1


def test_check_uses_the_listen_address(tmp_path: Path) -> None:
    with running(tmp_path, "--listen", "127.0.0.1:0") as (address, _):
        assert run(tmp_path, "--check", "--listen", address).returncode == 0
    failed = run(tmp_path, "--check", "--listen", address)
    assert failed.returncode == 1
    assert f"no broker answers at {address}" in failed.stderr


def test_check_fails_with_the_reason_when_the_broker_is_unhealthy(tmp_path: Path) -> None:
    little_room = f"health_free_bytes_min={2**62}"
    with running(tmp_path, "--listen", "127.0.0.1:0", "--set", little_room) as (address, _):
        failed = run(tmp_path, "--check", "--listen", address)
    assert failed.returncode == 1
    assert f"the broker at {address} is unhealthy: the disk of the data folder" in failed.stderr


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_it_cleanly(tmp_path: Path, stop: signal.Signals) -> None:
    with running(tmp_path, "--listen", "127.0.0.1:0") as (_, process):
        process.send_signal(stop)
        assert process.wait(60) == 0


def test_options_variables_and_file_reach_the_broker(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("[broker]\ndefault-partitions = 3\nnode_id = 5\nport = 1\n")
    environment = {"HEADRACE_BROKER_NODE_ID": "6", "HEADRACE_BROKER_PORT": "2"}
    options = ["--config", "other.toml", "--listen", "127.0.0.1:0", "--set", "auto_create_topics=false"]

    with running(tmp_path, *options, environment=environment) as (address, _):
        health = run(tmp_path, "--check", "--bootstrap", address).stdout
        client = {**ENVIRONMENT, "HEADRACE_BOOTSTRAP": address}
        subprocess.run([*COMMAND, "topic", "create", "t"], env=client, check=True, capture_output=True)
        listed = subprocess.run(
            [*COMMAND, "topic", "list", "--format", "json"], env=client, check=True, capture_output=True
        )
        rejected = subprocess.run(
            [*COMMAND, "produce", "not-there"], env=client, input=b"x\n", capture_output=True, check=False
        )

    assert "is broker 6 of cluster" in health
    assert json.loads(listed.stdout) == [{"topic": "t", "partitions": 3, "offsets": 0}]
    assert rejected.returncode == 1


def test_metrics_are_served_on_the_given_port(tmp_path: Path, free_port: int) -> None:
    with running(tmp_path, "--listen", "127.0.0.1:0", "--metrics-port", str(free_port)):
        page = urllib.request.urlopen(f"http://127.0.0.1:{free_port}/metrics", timeout=60).read().decode()

    assert "# TYPE headrace_" in page


def test_json_log_lines_are_json(tmp_path: Path) -> None:
    with running(tmp_path, "--listen", "127.0.0.1:0", "--log-format", "json") as (address, process):
        process.terminate()
        _, err = process.communicate(timeout=60)

    lines = [json.loads(line) for line in err.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert [line for line in lines if line.get("listen") == address]


def test_text_log_obeys_its_level(tmp_path: Path) -> None:
    with running(tmp_path, "--listen", "127.0.0.1:0", "--log-level", "error") as (_, process):
        process.terminate()
        _, err = process.communicate(timeout=60)

    assert err == ""


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--listen", "nowhere"], 1, "is not an address"),
        (["--listen", "0.0.0.0:0"], 1, "--insecure"),
        (["--listen", "0.0.0.0:0", "--metrics-port", "0"], 1, "of its metrics"),
        (["--set", "nope=1"], 1, "setting 'nope' is unknown"),
        (["--set", "default_partitions=many"], 1, "is not a whole number"),
        (["--set", "default_partitions=0"], 1, "is too small"),
        (["--set", "novalue"], 1, "is not a pair"),
        (["--config", "missing.toml"], 1, "settings file missing.toml is missing"),
        (["--durability", "maybe"], 2, "maybe"),
        (["--metrics-port", "-1"], 2, "-1"),
    ],
)
def test_bad_option_is_rejected_before_anything_is_written(
    tmp_path: Path, options: list[str], code: int, message: str
) -> None:
    rejected = run(tmp_path, "--data-dir", str(tmp_path / "data"), *options)

    assert rejected.returncode == code
    assert message in rejected.stderr
    assert "Traceback" not in rejected.stderr
    assert not (tmp_path / "data").exists()


def test_insecure_is_allowed_and_warned_of_whatever_the_log_level(tmp_path: Path) -> None:
    # The port is taken, so that the test opens none to other machines.
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = f"0.0.0.0:{holder.getsockname()[1]}"
        log = run(tmp_path, "--listen", address, "--insecure", "--log-level", "error").stderr
    assert "CRITICAL headrace.broker.server: INSECURE: " in log
    assert f"can't listen on {address}" in log


def test_second_broker_on_a_folder_and_on_a_port_is_rejected(tmp_path: Path) -> None:
    with running(tmp_path, "--listen", "127.0.0.1:0") as (address, _):
        same_folder = run(tmp_path, "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
        same_port = run(tmp_path, "--data-dir", str(tmp_path / "other"), "--listen", address)

    for rejected in (same_folder, same_port):
        assert rejected.returncode == 1
        assert "hint:" in rejected.stderr
        assert "Traceback" not in rejected.stderr
