"""`headrace edge tcp` in front of a real broker, with real sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

from tests.cli.conftest import Headrace, started
from tests.cli.edge.conftest import page, ready, stop
from tests.cli.typed_json import json_problems
from tests.edges.conftest import values_in, wait_until


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
        wait_until(lambda: f'_received_total{{edge="tcp-{topic}"}} 1000.0' in page(metrics))
        os.kill(process.pid, signal.SIGKILL)

    with started("edge", "tcp", *arguments, "127.0.0.1:0", environment=environment) as process:
        ready(process)
        wait_until(lambda: len(values_in(bootstrap, topic)) == 1000)
        assert "1,000 of them from an earlier run" in stop(process)
    assert values_in(bootstrap, topic) == [b"%d" % number for number in range(1000)]


def test_wrong_use_is_an_error_with_the_remedy(headrace: Headrace, topic: str) -> None:
    assert "--insecure" in headrace("edge", "tcp", "-t", topic, "--listen", "0.0.0.0:0", code=1).err
    nowhere = headrace("edge", "tcp", "-t", topic, "--listen", "127.0.0.1:0", "-b", "127.0.0.1:1", code=1)
    assert "no broker answers" in nowhere.err
