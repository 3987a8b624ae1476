"""`headrace run` from its start to the first event that a job has processed, with the duration of each part.

It is compared with plain PySpark on a running broker.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.broker.brokers import Durability, running_broker
from benchmarks.event_topics import write_topic
from benchmarks.measurements import Row, Sample, Side, Unit
from benchmarks.pipeline.bench import Bench, Subject
from benchmarks.pipeline.events import events
from benchmarks.programs import ProgramFailed

FIRST_EVENT = re.compile(r"first event processed after ([\d.]+) s: (.+)")
PART = re.compile(r"([A-Za-z ]+?) ([\d.]+) s\b")
# The names of the parts in the output of `headrace run`, in order.
PARTS = {
    "broker": "until the broker is ready",
    "Python": "until the job's Python is ready",
    "Spark": "until the Spark session is ready",
    "start of the job": "until the job is started",
    "first batch": "until its first batch is done",
}
TOPIC = "first"
EVENTS = 1_000


class FirstEvent(Subject):
    name = "pipeline-first-event"
    title = "From the start to the first event that a job has processed"
    sides = (Side.HEADRACE, Side.SPARK)

    @property
    def rows(self) -> tuple[Row, ...]:
        parts = (Row(key=_key(part), what=what, unit=Unit.SECONDS, goals=()) for part, what in PARTS.items())
        return (Row(key="first-event", what="all of it", unit=Unit.SECONDS, goals=()), *parts)

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if side is Side.SPARK:
            figures = self._by_hand(bench)
            yield "first-event", Sample(value=figures["first"])
            yield _key("Spark"), Sample(value=figures["spark"])
            return
        total, parts = self._headrace_run(bench)
        yield "first-event", Sample(value=total)
        for part, seconds in parts.items():
            yield _key(part), Sample(value=seconds)

    def _by_hand(self, bench: Bench) -> dict[str, float]:
        with bench.folder() as folder, running_broker(Side.HEADRACE, folder, Durability.OS) as broker:
            write_topic(broker.bootstrap, TOPIC, events(EVENTS), EVENTS)
            return bench.run_program("first_event", bootstrap=broker.bootstrap, topic=TOPIC)

    def _headrace_run(self, bench: Bench) -> tuple[float, dict[str, float]]:
        with bench.folder() as folder:
            command = [sys.executable, "-m", "headrace", "run", "--data-dir", str(folder / "data")]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                found = next(filter(None, map(FIRST_EVENT.search, process.stdout)), None)
                process.terminate()  # processes in the background ignore Ctrl-C
                process.stdout.read()
        if found is None:
            raise ProgramFailed("headrace run ended before its job had processed an event")
        return float(found[1]), {part.strip(): float(seconds) for part, seconds in PART.findall(found[2])}


def _key(part: str) -> str:
    return f"first-event-{part.lower().replace(' ', '-')}"
