"""Compare sketches over all time with the exact aggregates of Spark."""

from __future__ import annotations

from benchmarks.approximation.bench import FULL, QUICK, Bench, Subject
from benchmarks.approximation.subjects.sketches import Sketches
from benchmarks.command import run_command

SUBJECTS: tuple[type[Subject], ...] = (Sketches,)


if __name__ == "__main__":
    run_command(
        about="Compare sketches over all time with the exact aggregates of Spark.",
        name="approximation",
        subjects=SUBJECTS,
        rows_example="sketch-distinct-*",
        bench=Bench,
        sizes=FULL,
        quick_sizes=QUICK,
    )
