"""`headrace edge` in front of a real broker, with real sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from headrace.kafka.cluster import Cluster
from tests.cli.conftest import Headrace, started
from tests.cli.typed_json import json_problems
from tests.edges.conftest import values_in, wait_until

WAIT_S = 60


def ready(process: subprocess.Popen[str]) -> list[tuple[str, int]]:
    """The addresses in the line that the edge prints, those of its metrics included."""
    assert process.stderr is not None
    for line in process.stderr:
        if " ready at " in line:
            found = line.partition(" ready at ")[2].replace("http://", "").replace("/metrics", "").split()
            addresses = [word.strip(";,") for word in found if word.startswith("127.0.0.1:")]
            return [("127.0.0.1", int(address.rpartition(":")[2])) for address in addresses]
    raise AssertionError("the edge ended")


def stop(process: subprocess.Popen[str]) -> str:
    """Ctrl-C; what it printed."""
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    return out


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    Cluster(bootstrap, timeout_s=30).create_topic(name, partitions=1)
    return name


def test_statsd_metrics_become_events_and_the_report_counts_them(
    environment: dict[str, str], bootstrap: str, topic: str
) -> None:
    arguments = ["--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--flush", "200ms", "--metrics-port", "0"]
    with started(
        "edge", "statsd", "--topic", topic, *arguments, "--format", "json", environment=environment
    ) as process:
        udp, tcp, metrics = ready(process)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"page.views:2|c|#env:prod\nnonsense", udp)
        with socket.create_connection(tcp) as sender:
            sender.sendall(b"login:30|ms\n")
        wait_until(lambda: len([1 for each in events(bootstrap, topic) if each["type"] != "listener"]) == 2)
        page = (
            urllib.request.urlopen(f"http://127.0.0.1:{metrics[1]}/metrics", timeout=WAIT_S).read().decode()
        )
        out = stop(process)

    assert f'headrace_edge_lost_total{{edge="statsd-{topic}",place="no value"}} 1.0' in page
    assert json_problems("edge statsd", out) == []
    report = json.loads(out)
    assert (report["packets"], report["metrics"], report["garbage"]) == (2, 2, {"no value": 1})
    assert report["events"]["received"] == report["events"]["delivered"]
    found = {each["name"]: each for each in events(bootstrap, topic)}
    assert (found["page.views"]["value"], found["page.views"]["tags"]) == (2.0, {"env": "prod"})
    assert found["login"]["p99"] == 30.0
    assert values_in(bootstrap, f"dlq.{topic}") == [b"nonsense"]


def events(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(value) for value in values_in(bootstrap, topic)]


def test_lines_over_tcp_become_events_also_the_last_ones_before_ctrl_c(
    environment: dict[str, str], bootstrap: str, topic: str
) -> None:
    arguments = ["--topic", topic, "--listen", "127.0.0.1:0", "--line-bytes-max", "10", "--format", "json"]
    with started("edge", "tcp", *arguments, environment=environment) as process:
        (address,) = ready(process)
        with socket.create_connection(address) as sender:
            sender.sendall(b"one\n" + b"x" * 11 + b"\ntwo")
        out = stop(process)
    assert json_problems("edge tcp", out) == []
    report = json.loads(out)
    assert (report["connections"], report["too_long"], report["events"]["delivered"]) == (1, 1, 2)
    assert values_in(bootstrap, topic) == [b"one", b"two"]


def test_buffered_lines_survive_a_killed_edge_and_an_unavailable_broker(
    environment: dict[str, str], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    arguments = ["--topic", topic, "--overload", "buffer", "--data-dir", str(tmp_path), "--listen"]
    nowhere = {**environment, "HEADRACE_BOOTSTRAP": "127.0.0.1:1"}
    with started(
        "edge", "tcp", *arguments, "127.0.0.1:0", "--metrics-port", "0", environment=nowhere
    ) as process:
        address, metrics = ready(process)
        with socket.create_connection(address) as sender:
            sender.sendall(b"".join(b"%d\n" % number for number in range(1000)))
        page = f"http://127.0.0.1:{metrics[1]}/metrics"
        wait_until(lambda: b"_received_total" in _read(page) and b" 1000.0" in _read(page))
        os.kill(process.pid, signal.SIGKILL)

    with started("edge", "tcp", *arguments, "127.0.0.1:0", environment=environment) as process:
        ready(process)
        wait_until(lambda: len(values_in(bootstrap, topic)) == 1000)
        assert "1,000 of them from an earlier run" in stop(process)
    assert values_in(bootstrap, topic) == [b"%d" % number for number in range(1000)]


def _read(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=WAIT_S) as response:
        found: bytes = response.read()
        return found


def test_wrong_use_is_an_error_with_the_remedy(headrace: Headrace, topic: str) -> None:
    assert "--insecure" in headrace("edge", "tcp", "-t", topic, "--listen", "0.0.0.0:0", code=1).err
    assert "is not an address" in headrace("edge", "statsd", "-t", topic, "--listen", "here", code=1).err
    assert "shorter than" in headrace("edge", "statsd", "-t", topic, "--flush", "1ms", code=2).err
    nowhere = headrace("edge", "tcp", "-t", topic, "--listen", "127.0.0.1:0", "-b", "127.0.0.1:1", code=1)
    assert "no broker answers" in nowhere.err
