"""Compare what edges receive with the reference implementations of their protocols."""

from __future__ import annotations

from benchmarks.command import run_command
from benchmarks.edges.bench import FULL, QUICK, Bench, Subject
from benchmarks.edges.subjects.statsd import Statsd

SUBJECTS: tuple[type[Subject], ...] = (Statsd,)


if __name__ == "__main__":
    run_command(
        about="Compare what edges receive with the reference implementations of their protocols.",
        name="edges",
        subjects=SUBJECTS,
        rows_example="statsd-*",
        bench=Bench,
        sizes=FULL,
        quick_sizes=QUICK,
    )
