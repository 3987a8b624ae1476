"""`statsd` from npm beside our listener: the same lines have the same results."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.edges.overload import Intake
from headrace.edges.settings import EdgeSettings
from headrace.kafka.cluster import Cluster
from headrace.testing.manual_clock import ManualClock
from headrace.testing.ports import free_ports
from tests.compatibility.npm import npm_folder
from tests.edges.conftest import values_in, wait_until
from tests.edges.statsd.test_listener import FLUSH_MS, listening

pytestmark = pytest.mark.timeout(300)

BACKEND = """
exports.init = (startup, config, events) => {
  events.on('flush', (_, m) => console.log(JSON.stringify({
    counters: m.counters, gauges: m.gauges, timers: m.timer_data,
    sets: Object.fromEntries(Object.entries(m.sets).map(([name, set]) => [name, set.values().length])),
  })));
  return true;
};
"""
FLUSH_NPM_MS = 3_000

PACKETS = [
    b"views:1|c\nviews:2|c|@0.5\nviews:-1|c",
    b"sampled:3|c|@0.1",
    b"queue:7|g\nqueue:+5|g\nqueue:-2|g\nlevel:1.5|g\nlevel:2.5|g",
    b"below:5|g\nbelow:0|g\nbelow:-4|g",
    b"users:ann|s\nusers:bob|s\nusers:ann|s",
    *(b"login:%d|ms" % ((37 * number) % 101) for number in range(100)),
    b"one:12.5|ms",
]
GARBAGE = [b"garbage", b"a:x|c", b"a:1|c|0.1", b"a:1|c|@x", b"b:x|ms", b"c:|g", b"|"]


@contextlib.contextmanager
def npm_statsd(folder: Path) -> Iterator[tuple[int, Iterator[str]]]:
    """Its UDP port, and the lines that it writes, one for each flush."""
    port, management_port = free_ports(2)
    (folder / "backend.js").write_text(BACKEND)
    config = {
        "address": "127.0.0.1",
        "port": port,
        "mgmt_address": "127.0.0.1",
        "mgmt_port": management_port,
        "backends": [str(folder / "backend.js")],
        "flushInterval": FLUSH_NPM_MS,
        "percentThreshold": [50, 90, 95, 99],
    }
    (folder / "config.js").write_text(json.dumps(config))
    script = npm_folder("statsd", "0.9.0") / "node_modules" / "statsd" / "stats.js"
    command = ["node", str(script), str(folder / "config.js")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield port, (line for line in process.stdout if line.startswith("{"))
        finally:
            process.terminate()


def send(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for packet in (*PACKETS, *GARBAGE):
            sender.sendto(packet, ("127.0.0.1", port))


def of_headrace(bootstrap: str, topic: str) -> tuple[dict[str, Any], int]:
    Cluster(bootstrap, timeout_s=30).create_topic(topic, partitions=1)
    with Intake({"bootstrap.servers": bootstrap}, EdgeSettings(stop_s=60), name="edge") as intake:
        with listening(intake, topic, clock := ManualClock()) as (sender, listener):
            send(sender._udp[1])
            wait_until(lambda: listener._window_received == len(PACKETS) + len(GARBAGE))
            clock.advance_ms(FLUSH_MS)
            wait_until(lambda: listener.metrics > 0)
        garbage = listener.garbage
    events = [json.loads(value) for value in values_in(bootstrap, topic)]
    return {each["name"]: each for each in events if each["type"] != "listener"}, sum(garbage.values())


def test_same_packets_have_the_same_counters_gauges_timers_and_sets(
    bootstrap: str, name: str, tmp_path: Path
) -> None:
    with npm_statsd(tmp_path) as (port, flushes):
        next(flushes)  # the packets are all in the next one
        send(port)
        theirs = json.loads(next(flushes))
    ours, garbage = of_headrace(bootstrap, name)

    def value(name: str) -> Any:
        return ours[name]["value"]

    counters = {each: count for each, count in theirs["counters"].items() if not each.startswith("statsd.")}
    assert counters == {each: pytest.approx(value(each)) for each in counters}
    assert {"views", "sampled"} <= counters.keys()
    gauges = {each: found for each, found in theirs["gauges"].items() if not each.startswith("statsd.")}
    assert gauges == {each: value(each) for each in ("queue", "level", "below")}
    assert theirs["sets"] == {"users": value("users")}
    assert theirs["counters"]["statsd.bad_lines_seen"] == garbage
    for each in ("login", "one"):
        timer, found = theirs["timers"][each], ours[each]
        assert (timer["count"], timer["sum"]) == (found["count"], found["sum"])
        assert (timer["lower"], timer["upper"]) == (found["min"], found["max"])
        assert timer["mean"] == pytest.approx(found["mean"])
    for percent in (50, 90, 95, 99):
        assert theirs["timers"]["login"][f"upper_{percent}"] == ours["login"][f"p{percent}"]
