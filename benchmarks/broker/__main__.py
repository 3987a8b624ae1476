"""Measure Headrace's broker beside Apache Kafka."""

from __future__ import annotations

from pathlib import Path

from benchmarks.broker.bench import FULL, QUICK, Bench, Subject
from benchmarks.broker.subjects.ceiling import Ceiling
from benchmarks.broker.subjects.consume import Consume
from benchmarks.broker.subjects.footprint import Footprint
from benchmarks.broker.subjects.latency import Latency
from benchmarks.broker.subjects.produce import ProduceFsync, ProduceOs
from benchmarks.broker.subjects.restart import Restart
from benchmarks.broker.subjects.scale import Scale
from benchmarks.command import run_command
from benchmarks.runner import Say

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


def make_bench(is_quick: bool, workplace: Path, rows_wanted: str, say: Say) -> Bench:
    return Bench(sizes=QUICK if is_quick else FULL, workplace=workplace, rows_wanted=rows_wanted, say=say)


if __name__ == "__main__":
    run_command(
        about="Measure Headrace's broker beside Apache Kafka.",
        name="broker",
        subjects=SUBJECTS,
        rows_example="*-java-100",
        make_bench=make_bench,
    )
