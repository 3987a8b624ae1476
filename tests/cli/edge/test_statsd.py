"""`headrace edge statsd` in front of a real broker, with real sockets."""

from __future__ import annotations

import json
import socket
from typing import Any

from tests.cli.conftest import Headrace, started
from tests.cli.edge.conftest import page, ready, stop
from tests.cli.typed_json import json_problems
from tests.edges.conftest import values_in, wait_until


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
        counts = page(metrics)
        out = stop(process)

    assert f'headrace_edge_lost_total{{edge="statsd-{topic}",place="no value"}} 1.0' in counts
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


def test_wrong_use_is_an_error_with_the_remedy(headrace: Headrace, topic: str) -> None:
    assert "is not an address" in headrace("edge", "statsd", "-t", topic, "--listen", "here", code=1).err
    assert "shorter than" in headrace("edge", "statsd", "-t", topic, "--flush", "1ms", code=2).err
