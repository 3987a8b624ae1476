"""Karapace's REST proxy as a peer. It is on no package registry, so nothing here installs it: a variable of the
environment names the Python of an installation. Its producer has the settings of the other servers.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator

from headrace.errors import HeadraceError

PYTHON_VARIABLE = "BENCH_KARAPACE_PYTHON"
START_S_MAX = 30
STOP_S_MAX = 30


class KarapaceUnavailable(HeadraceError):
    """Karapace is not installed, or did not start."""


def require_karapace() -> str:
    """The Python that has Karapace."""
    python = os.environ.get(PYTHON_VARIABLE)
    if not python:
        raise KarapaceUnavailable(
            "Karapace is not installed",
            hint=f"install it from its repository, and set {PYTHON_VARIABLE} to the Python that has it",
        )
    return python


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline_s and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise KarapaceUnavailable(f"Karapace did not listen at port {port} within {START_S_MAX} s")


@contextlib.contextmanager
def running_karapace(bootstrap: str) -> Iterator[tuple[str, int]]:
    """The address of its REST proxy, and the id of its process."""
    port = _free_port()
    settings = {
        "KARAPACE_BOOTSTRAP_URI": bootstrap,
        "KARAPACE_HOST": "127.0.0.1",
        "KARAPACE_PORT": str(port),
        "KARAPACE_KARAPACE_REST": "true",
        "KARAPACE_LOG_LEVEL": "ERROR",
        "KARAPACE_PRODUCER_ACKS": "all",
        "KARAPACE_PRODUCER_LINGER_MS": "1",
    }
    command = [require_karapace(), "-m", "karapace.kafka_rest_apis"]
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, env={**os.environ, **settings}, stdout=silent, stderr=silent) as process:
        try:
            _wait_for(port, process)
            yield f"http://127.0.0.1:{port}", process.pid
        finally:
            process.terminate()
            process.wait(STOP_S_MAX)
