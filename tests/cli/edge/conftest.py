"""A running edge: where it listens, and its end."""

from __future__ import annotations

import signal
import subprocess
import urllib.request

import pytest

from headrace.kafka.cluster import Cluster

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


def page(address: tuple[str, int]) -> str:
    """The metrics of an edge."""
    with urllib.request.urlopen(f"http://127.0.0.1:{address[1]}/metrics", timeout=WAIT_S) as response:
        return str(response.read(), "utf-8")


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    Cluster(bootstrap, timeout_s=30).create_topic(name, partitions=1)
    return name
