"""The broker that the clients are tested on: Headrace's by default, or Apache Kafka.

`HEADRACE_TEST_BOOTSTRAP_OF=kafka` (or `--bootstrap-of=kafka`) runs every test of this folder against Apache
Kafka, which shows whether a failure is Headrace's or the test's own.
"""

from __future__ import annotations

import contextlib
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.testing.apache_kafka import ApacheKafka

READY_LINE = "headrace broker ready at "
READY_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60

# The compaction test waits for the cleaner, which otherwise runs every 15 s only.
CLEANER_INTERVAL_MS = 200

# Members of the tests' groups send heartbeats often, which Kafka's defaults don't allow.
CONSUMER_GROUP_TIMES = ("heartbeat.interval", "session.timeout")
MINIMUM_MS = 100

KAFKA_PROPERTIES = {
    "log.cleaner.backoff.ms": str(CLEANER_INTERVAL_MS),
    **{f"group.consumer.min.{name}.ms": str(MINIMUM_MS) for name in CONSUMER_GROUP_TIMES},
    # Members of share groups learn of changes with their next heartbeat, and tests wait for locks to time out.
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.record.lock.duration.ms": "1000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnderTest:
    kind: str
    bootstrap: str
    data_dir: Path


@contextlib.contextmanager
def running_broker(kind: str, folder: Path) -> Iterator[BrokerUnderTest]:
    if kind == "kafka":
        with ApacheKafka(properties=KAFKA_PROPERTIES, folder=folder) as kafka:
            yield BrokerUnderTest(kind=kind, bootstrap=kafka.bootstrap, data_dir=kafka.data_dir)
    else:
        with _running_headrace(folder) as broker:
            yield broker


@contextlib.contextmanager
def _running_headrace(folder: Path) -> Iterator[BrokerUnderTest]:
    data_dir = folder / "data"
    log_file = folder / "broker.log"
    command = [sys.executable, "-m", "headrace", "broker", "--data-dir", str(data_dir)]
    command += ["--listen", "127.0.0.1:0", "--set", f"compaction_interval_ms={CLEANER_INTERVAL_MS}"]
    with log_file.open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        bootstrap = _read_ready_line(process, log_file)
        yield BrokerUnderTest(kind="headrace", bootstrap=bootstrap, data_dir=data_dir)
        assert process.poll() is None, f"the broker ended during the tests:\n{_tail(log_file)}"
    finally:
        _end(process)


def _read_ready_line(process: subprocess.Popen[str], log_file: Path) -> str:
    assert process.stdout is not None
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while (left_s := deadline_s - time.monotonic()) > 0:
        readable, _, _ = select.select([process.stdout], [], [], left_s)
        line = process.stdout.readline() if readable else ""
        if line.startswith(READY_LINE):
            return line.removeprefix(READY_LINE).strip()
        if not line:
            break
    raise AssertionError(
        f"the broker did not print {READY_LINE!r}; it ended with {process.poll()}:\n{_tail(log_file)}"
    )


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _tail(log_file: Path) -> str:
    return "\n".join(log_file.read_text(errors="replace").splitlines()[-40:])
