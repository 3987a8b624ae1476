"""A capture that runs beside a load: Headrace's in a process of its own, or Debezium's engine."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.broker.brokers import RunningBroker
from benchmarks.cdc.database import Database
from benchmarks.measurements import Side
from headrace.cdc.capture import Capture, Captures
from headrace.errors import HeadraceError
from headrace.testing.debezium import DebeziumEngine

NAME = "bench"
TIMEOUT_S = 900
_POLL_S = 0.05


class FollowerFailed(HeadraceError):
    """A capture ended, or did not write all changes."""


EventCount = Callable[[], int]


@contextlib.contextmanager
def following(
    side: Side, database: Database, broker: RunningBroker, folder: Path, tables: str
) -> Iterator[EventCount]:
    """A capture of the tables that match, with a snapshot first. Yields how many events it has written."""
    if side is Side.DEBEZIUM:
        with debezium(database, broker, folder, tables) as engine:
            yield lambda: engine.events
        return
    capture = Capture(name=NAME, address=database.address, tables=(tables,), partitions=1)
    definition = Captures(folder / "captures").add(capture)
    command = [sys.executable, "-m", "headrace", "cdc", "run", NAME, "--bootstrap", broker.bootstrap]
    with (folder / "capture.log").open("a") as log:
        process = subprocess.Popen(
            [*command, "--data-dir", str(folder / "captures")], stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield lambda: definition.status().events
    finally:
        process.terminate()
        process.wait()


def debezium(
    database: Database, broker: RunningBroker, folder: Path, tables: str, *, snapshot: bool = True
) -> DebeziumEngine:
    more = {"table.include.list": tables.replace(".", "\\\\.").replace("*", ".*")}
    if not snapshot:
        more["snapshot.mode"] = "no_data"
    return DebeziumEngine(NAME, database.address, folder / "debezium", bootstrap=broker.bootstrap, more=more)


def wait_for_events(count: EventCount, wanted: int) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while count() < wanted:
        if time.monotonic() > deadline_s:
            raise FollowerFailed(f"{count():,} of {wanted:,} events were written within {TIMEOUT_S} s")
        time.sleep(_POLL_S)


def engine_rate(engine: DebeziumEngine) -> float:
    """Events/s between the first batch and the last one, so that the start of Java does not count."""
    (first, first_ms), (last, last_ms) = engine.batches[0], engine.batches[-1]
    return (last - first) / max(last_ms - first_ms, 1) * 1000
