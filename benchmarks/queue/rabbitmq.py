"""A private RabbitMQ node on free loopback ports: its own name, data, cookie and port mapper, no plugins.

It is Debian's server, started by its script. The system's service, with its node and data, is not touched.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.java import last_lines
from headrace.testing.ports import free_ports

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The script itself: the one on the search path requires another user and the folders of the system."""

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60
PROBE_INTERVAL_S = 0.1
AMQP_HEADER = b"AMQP\x00\x00\x09\x01"


class RabbitUnavailable(HeadraceError):
    """RabbitMQ is not installed, or did not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRabbit:
    uri: str
    pid: int  # the script, whose child is the server


def is_installed() -> bool:
    return SERVER.exists() and shutil.which("epmd") is not None


@contextlib.contextmanager
def running_rabbitmq(folder: Path) -> Iterator[RunningRabbit]:
    """A node with `folder`, stopped cleanly at the end. It calls fsync for persistent messages with confirms."""
    if not is_installed():
        raise RabbitUnavailable("RabbitMQ is not installed", hint="Debian: apt-get install rabbitmq-server")
    folder.mkdir(parents=True, exist_ok=True)
    mapper_port, distribution_port, amqp_port = free_ports(3)
    environment = _environment(folder, mapper_port, distribution_port, amqp_port)
    log_file = folder / "server.log"
    with log_file.open("w") as log:
        # Otherwise the server would start Erlang's port mapper as a daemon that keeps running.
        mapper = subprocess.Popen(["epmd"], env=environment, stdout=log, stderr=log)
        try:
            _wait_for_port(mapper, mapper_port, log_file, greeting=b"")
            server = subprocess.Popen(
                [str(SERVER)], env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            try:
                _wait_for_port(server, amqp_port, log_file, greeting=AMQP_HEADER)
                yield RunningRabbit(uri=f"amqp://127.0.0.1:{amqp_port}", pid=server.pid)
            finally:
                _stop(server)
        finally:
            _stop(mapper)


def _environment(folder: Path, mapper_port: int, distribution_port: int, amqp_port: int) -> dict[str, str]:
    (folder / "plugins").write_text("[].\n")
    (folder / "rabbitmq.conf").write_text("")
    cookie = folder / ".erlang.cookie"
    cookie.write_text(secrets.token_hex(16))
    cookie.chmod(0o400)
    absent = str(folder / "absent")
    return {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(mapper_port),
        "RABBITMQ_NODENAME": f"headrace-benchmark-{amqp_port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(amqp_port),
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "generated"),
        "RABBITMQ_SCHEMA_DIR": str(folder / "schema"),
        "RABBITMQ_FEATURE_FLAGS_FILE": str(folder / "feature-flags"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        # Files of the system's own node that this node would read if they existed.
        "RABBITMQ_CONF_ENV_FILE": absent,
        "RABBITMQ_ADVANCED_CONFIG_FILE": f"{absent}.config",
    }


def _wait_for_port(process: subprocess.Popen[bytes], port: int, log_file: Path, *, greeting: bytes) -> None:
    """Wait until the port is open and, if a greeting is set, the server responds to it."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
            if not greeting:
                return
            probe.sendall(greeting)
            if probe.recv(1):
                return
        time.sleep(PROBE_INTERVAL_S)
    raise RabbitUnavailable(
        f"RabbitMQ did not start:\n{last_lines(log_file.read_text(errors='replace'))}",
        hint="check the version of Erlang and the free memory",
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
