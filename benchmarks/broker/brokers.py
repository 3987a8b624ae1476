"""Starts both brokers the same way: with a folder and a durability, timed until they respond."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from benchmarks.broker.wire import knows_a_broker, metadata_request, read_response
from benchmarks.measurements import Side
from headrace.errors import HeadraceError
from headrace.testing.apache_kafka import ApacheKafka
from headrace.testing.ports import free_port

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60
PROBE_INTERVAL_S = 0.002
"""The precision of a start time. A probe costs some 50 µs, so it hardly slows the start."""

LOG_LINES_QUOTED = 15


class Durability(StrEnum):
    OS = "os"
    FSYNC = "fsync"


KAFKA_PROPERTIES = {
    Durability.OS: {},
    Durability.FSYNC: {"log.flush.interval.messages": "1"},
}


class BrokerFailed(HeadraceError):
    """A broker did not start, or did not stop cleanly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBroker:
    side: Side
    bootstrap: str
    pid: int
    start_s: float  # from the start of the process to the first response with a broker in it


@contextlib.contextmanager
def running_broker(
    side: Side,
    folder: Path,
    durability: Durability = Durability.OS,
    *,
    kafka_properties: Mapping[str, str] | None = None,
) -> Iterator[RunningBroker]:
    """The broker of `side` with `folder`, stopped cleanly at the end. The folder is not deleted."""
    folder.mkdir(parents=True, exist_ok=True)
    if side is Side.KAFKA:
        properties = {**KAFKA_PROPERTIES[durability], **(kafka_properties or {})}
        kafka = _TimedKafka(properties=properties, folder=folder)
        with kafka:
            yield RunningBroker(side=side, bootstrap=kafka.bootstrap, pid=kafka.pid, start_s=kafka.start_s)
    else:
        with running_headrace(folder, durability) as running:
            yield running


class _TimedKafka(ApacheKafka):
    """Apache Kafka, with probes that are frequent enough to time the start."""

    start_s = 0.0

    def _wait_until_ready(self, process: subprocess.Popen[Any]) -> None:
        self.start_s = _wait_until_ready(process, self.bootstrap, time.monotonic(), self.log_file)


@contextlib.contextmanager
def running_headrace(
    folder: Path, durability: Durability, *, python_options: Sequence[str] = ()
) -> Iterator[RunningBroker]:
    """Headrace's broker; `python_options` precede `-m headrace`, for a profiler."""
    log_file = folder / "broker.log"
    bootstrap = f"127.0.0.1:{free_port()}"
    command = [*_headrace(python_options), "broker", "--data-dir", str(folder / "data")]
    command += ["--listen", bootstrap, "--durability", durability]
    with log_file.open("a") as log:
        started_s = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_installed_environment()
        )
    try:
        start_s = _wait_until_ready(process, bootstrap, started_s, log_file)
        yield RunningBroker(side=Side.HEADRACE, bootstrap=bootstrap, pid=process.pid, start_s=start_s)
    except Exception as error:
        if process.poll() is None:
            raise
        # The client only knows that the broker does not respond; the reason is in the last output of the broker.
        raise _ended(process, log_file) from error
    finally:
        _stop(process)
    if process.returncode != 0:
        raise _ended(process, log_file)


def _headrace(python_options: Sequence[str]) -> list[str]:
    """The command that users type, or the same with options of Python."""
    typed = Path(sys.executable).with_name("headrace")
    if python_options or not typed.exists():
        return [sys.executable, *python_options, "-m", "headrace"]
    return [str(typed)]


def _installed_environment() -> dict[str, str]:
    """Python as users run it: with compiled modules in its cache, like Java's classes."""
    return {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _ended(process: subprocess.Popen[bytes], log_file: Path) -> BrokerFailed:
    return BrokerFailed(
        f"Headrace's broker ended with code {process.returncode}; its last output:\n{_last_lines(log_file)}"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until_ready(
    process: subprocess.Popen[Any], bootstrap: str, started_s: float, log_file: Path
) -> float:
    while time.monotonic() < started_s + START_TIMEOUT_S:
        if serves_metadata(bootstrap):
            return time.monotonic() - started_s
        if process.poll() is not None:
            break
        time.sleep(PROBE_INTERVAL_S)
    raise BrokerFailed(
        f"the broker at {bootstrap} did not respond within {START_TIMEOUT_S} s, or ended; its last output:\n"
        f"{_last_lines(log_file)}"
    )


def serves_metadata(bootstrap: str) -> bool:
    host, _, port = bootstrap.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(metadata_request())
            return knows_a_broker(read_response(connection))
    except OSError:
        return False


def _last_lines(log_file: Path) -> str:
    return "\n".join(log_file.read_text(errors="replace").splitlines()[-LOG_LINES_QUOTED:])
