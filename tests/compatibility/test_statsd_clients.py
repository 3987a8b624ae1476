"""Other people's StatsD clients in front of our listener: two of npm, and DataDog's for Python."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datadog.dogstatsd.base import DogStatsd

from headrace.edges.overload import Intake
from headrace.edges.settings import EdgeSettings
from headrace.kafka.cluster import Cluster
from headrace.testing.manual_clock import ManualClock
from headrace.testing.requirements import require_command
from tests.edges.conftest import values_in, wait_until
from tests.edges.statsd.test_listener import FLUSH_MS, listening

NPM_CLIENTS = ("hot-shots@17.1.1", "node-statsd@0.1.1")
INSTALL_S_MAX = 180

PROGRAM = """
const [kind, port] = process.argv.slice(2);
const StatsD = require(kind);
const client = new StatsD({host: '127.0.0.1', port: Number(port), prefix: 'app.'});
for (let number = 0; number < 10; number++) client.increment('views', 2, ['env:prod', 'region:eu']);
client.decrement('views', 5, 1, ['env:prod', 'region:eu']);
client.gauge('queue', 7);
client.timing('login', 30);
client.timing('login', 50);
client.histogram('size', 12.5);
client.unique('users', 'ann');
client.unique('users', 'bob');
client.unique('users', 'ann');
setTimeout(() => client.close(() => process.exit(0)), 200);
"""


@pytest.fixture(scope="module")
def npm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    npm = require_command("npm", install="Debian: apt-get install npm")
    folder = tmp_path_factory.mktemp("npm")
    command = [npm, "install", *NPM_CLIENTS, "--no-audit", "--no-fund"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"npm could not install {' and '.join(NPM_CLIENTS)}: {done.stderr[-500:]}")
    (folder / "send.js").write_text(PROGRAM)
    return folder


@contextlib.contextmanager
def received(bootstrap: str, topic: str, metrics: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The UDP port, and the events by name once the context has ended and so many values were counted."""
    Cluster(bootstrap, timeout_s=30).create_topic(topic, partitions=1)
    found: dict[str, Any] = {}
    with Intake({"bootstrap.servers": bootstrap}, EdgeSettings(stop_s=60), name="edge") as intake:
        clock = ManualClock()
        with listening(intake, topic, clock) as (sender, listener):
            yield sender._udp[1], found
            wait_until(lambda: listener._window.metrics == metrics)
            clock.advance_ms(FLUSH_MS)
            wait_until(lambda: listener.metrics == metrics)
        assert not listener.garbage
    for value in values_in(bootstrap, topic):
        event = json.loads(value)
        if event.get("count") or event["type"] != "listener":
            found[event["name"]] = event


@pytest.mark.parametrize("client", ["hot-shots", "node-statsd"])
def test_metrics_of_npm_clients_are_counted_as_they_were_sent(
    bootstrap: str, name: str, npm_folder: Path, client: str
) -> None:
    node = require_command("node", install="Debian: apt-get install nodejs")
    with received(bootstrap, name, metrics=18) as (port, found):
        subprocess.run([node, "send.js", client, str(port)], cwd=npm_folder, check=True, timeout=60)

    assert (found["app.views"]["value"], found["app.views"]["tags"]) == (15, {"env": "prod", "region": "eu"})
    assert found["app.queue"]["value"] == 7
    assert (found["app.login"]["count"], found["app.login"]["sum"]) == (2, 80)
    assert found["app.size"]["mean"] == 12.5
    assert found["app.users"]["value"] == 2


def test_metrics_of_datadogs_client_are_counted_as_they_were_sent(bootstrap: str, name: str) -> None:
    with received(bootstrap, name, metrics=9) as (port, found):
        client = DogStatsd(host="127.0.0.1", port=port, disable_telemetry=True, constant_tags=["env:prod"])
        for _ in range(3):
            client.increment("views", 2, tags=["page:cart"])
        client.gauge("queue", 7.5)
        client.timing("login", 30)
        client.distribution("size", 12)
        client.set("users", "ann")
        client.set("users", "bob")
        client.decrement("views", tags=["page:cart"])
        client.flush()
        client.close_socket()

    assert (found["views"]["value"], found["views"]["tags"]) == (5, {"env": "prod", "page": "cart"})
    assert found["queue"]["value"] == 7.5
    assert (found["login"]["type"], found["size"]["type"]) == ("timer", "distribution")
    assert found["users"]["value"] == 2
