"""How much the pipeline's benchmark does for one sample, and the topic of events that its subjects read."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import bench
from benchmarks.broker.brokers import Durability, RunningBroker, running_broker
from benchmarks.broker.load import check_end_offset, create_topic
from benchmarks.measurements import Side
from benchmarks.pipeline.events import EVENTS_TOPIC, PARTITIONS, WARMUP_TOPIC, produce_events
from headrace.errors import HeadraceError

PROGRAM_TIMEOUT_S = 1_800
"""The slowest sample of a full run, a million rows by `executemany` into PostgreSQL, takes some minutes."""

OUTPUT_LINES_QUOTED = 25


class ProgramFailed(HeadraceError):
    """A program of the benchmark ended with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    events: int
    warmup: int
    upserts: int
    upsert_keys: int
    latency_events: int
    latency_rate: int


FULL = Sizes(
    events=5_000_000,
    warmup=500_000,
    upserts=1_000_000,
    upsert_keys=200_000,
    latency_events=10_000,
    latency_rate=500,
)
QUICK = Sizes(
    events=50_000,
    warmup=10_000,
    upserts=20_000,
    upsert_keys=5_000,
    latency_events=500,
    latency_rate=100,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(bench.Bench):
    sizes: Sizes

    @contextlib.contextmanager
    def events_broker(self) -> Iterator[RunningBroker]:
        """Headrace's broker with the topic of events, and a short one, written once and there for the whole run."""
        folder = self.workplace / "events"
        is_new = not folder.exists()
        with running_broker(Side.HEADRACE, folder, Durability.OS) as broker:
            if is_new:
                self.say(f"writing {self.sizes.events:,} events")
                self._write_events(broker.bootstrap, WARMUP_TOPIC, self.sizes.warmup)
                self._write_events(broker.bootstrap, EVENTS_TOPIC, self.sizes.events)
            yield broker

    def _write_events(self, bootstrap: str, topic: str, count: int) -> None:
        create_topic(bootstrap, topic, partitions=PARTITIONS)
        produce_events(bootstrap, topic, count)
        check_end_offset(bootstrap, topic, count, partitions=PARTITIONS)

    def run_program(self, name: str, **arguments: Any) -> dict[str, float]:
        """Run `benchmarks.pipeline.programs.<name>`; its last line of output is a JSON object of figures."""
        with self.folder() as folder:
            arguments["folder"] = str(folder)
            command = [sys.executable, "-m", f"benchmarks.pipeline.programs.{name}", json.dumps(arguments)]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S, check=False
            )
        lines = done.stdout.strip().splitlines()
        if done.returncode != 0 or not lines:
            said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-OUTPUT_LINES_QUOTED:])
            raise ProgramFailed(f"{name} ended with code {done.returncode}; it last said:\n{said}")
        figures: dict[str, float] = json.loads(lines[-1])
        return figures


Subject = bench.Subject[Bench]
