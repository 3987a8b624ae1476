"""Compare Headrace's broker with Apache Kafka."""

from __future__ import annotations

from benchmarks.broker.bench import FULL, QUICK, Bench, Subject
from benchmarks.broker.subjects.ceiling import Ceiling
from benchmarks.broker.subjects.consume import Consume
from benchmarks.broker.subjects.footprint import Footprint
from benchmarks.broker.subjects.latency import Latency
from benchmarks.broker.subjects.produce import ProduceFsync, ProduceOs
from benchmarks.broker.subjects.restart import Restart
from benchmarks.broker.subjects.scale import Scale
from benchmarks.command import run_command

SUBJECTS: tuple[type[Subject], ...] = (
    ProduceOs,
    ProduceFsync,
    Consume,
    Latency,
    Footprint,
    Scale,
    Restart,
    Ceiling,
)


if __name__ == "__main__":
    run_command(
        about="Compare Headrace's broker with Apache Kafka.",
        name="broker",
        subjects=SUBJECTS,
        rows_example="*-java-100",
        bench=Bench,
        sizes=FULL,
        quick_sizes=QUICK,
    )
