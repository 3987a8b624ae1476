"""Compare HTTP with a bare FastAPI route, and measure streams."""

from __future__ import annotations

from benchmarks.command import run_command
from benchmarks.edges.bench import FULL, QUICK, Bench, Subject
from benchmarks.edges.subjects.produce import Produce
from benchmarks.edges.subjects.streams import Streams

SUBJECTS: tuple[type[Subject], ...] = (Produce, Streams)


if __name__ == "__main__":
    run_command(
        about="Compare HTTP with a bare FastAPI route, and measure streams.",
        name="edges",
        subjects=SUBJECTS,
        rows_example="stream-*",
        bench=Bench,
        sizes=FULL,
        quick_sizes=QUICK,
    )
