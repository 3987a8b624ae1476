"""The two StatsD listeners, each in its own process: that of Headrace in front of its broker, and `statsd` from npm."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.edges.programs.flood import socket_at
from headrace.errors import HeadraceError
from headrace.testing.ports import free_ports

NPM_VERSION = "0.9.0"
FLUSH_MS = 1_000
READY_S = 60.0
STOP_S = 60.0


class ServerFailed(HeadraceError):
    """A listener did not start, or npm could not install it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsdServer:
    port: int
    pid: int


@contextlib.contextmanager
def headrace_server(bootstrap: str) -> Iterator[StatsdServer]:
    (port,) = free_ports(1)
    command = [
        sys.executable,
        "-m",
        "headrace",
        "edge",
        "statsd",
        "--topic",
        "metrics",
        "--bootstrap",
        bootstrap,
    ]
    with _running([*command, "--listen", f"127.0.0.1:{port}", "--flush", f"{FLUSH_MS}ms"], port) as server:
        yield server


def install_npm(folder: Path) -> None:
    command = ["npm", "install", f"statsd@{NPM_VERSION}", "--no-audit", "--no-fund", "--omit=optional"]
    folder.mkdir(exist_ok=True)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServerFailed(
            f"npm could not install statsd: {done.stderr}", hint="is npm there, and its registry?"
        )


@contextlib.contextmanager
def npm_server(folder: Path) -> Iterator[StatsdServer]:
    """Without Graphite: it writes its metrics to its output."""
    port, management_port = free_ports(2)
    config: Mapping[str, object] = {
        "address": "127.0.0.1",
        "port": port,
        "mgmt_address": "127.0.0.1",
        "mgmt_port": management_port,
        "backends": ["./backends/console"],
        "flushInterval": FLUSH_MS,
    }
    file = folder / "config.js"
    file.write_text(json.dumps(config))
    with _running(["node", str(folder / "node_modules/statsd/stats.js"), str(file)], port) as server:
        yield server


@contextlib.contextmanager
def _running(command: list[str], port: int) -> Iterator[StatsdServer]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline_s = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(ProcessLookupError):
                socket_at(port)
                break
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise ServerFailed(f"{command[0]} did not listen", hint=" ".join(command))
            time.sleep(0.05)
        yield StatsdServer(port=port, pid=process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
