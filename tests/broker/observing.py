"""Looking at a broker from outside: its metrics, and waiting for something to become true."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable

from headrace.broker.embedded import Broker
from headrace.broker.server import Server

WAIT_S = 30


def metrics(broker: Broker | Server) -> dict[str, float]:
    """The samples of /metrics, by name with labels. The broker must have been started with metrics_port=0."""
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics", timeout=WAIT_S) as page:
        lines = page.read().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Return as soon as the condition holds; fail if it does not within a time that nothing sound needs."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"it never happened: {what}"
        time.sleep(0.02)
