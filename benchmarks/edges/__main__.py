"""Compare HTTP with a bare FastAPI route, measure streams, and compare StatsD with its reference implementation."""

from __future__ import annotations

from benchmarks.command import run_command
from benchmarks.edges.bench import FULL, QUICK, Bench, Subject
from benchmarks.edges.subjects.direct import Direct
from benchmarks.edges.subjects.produce import Produce
from benchmarks.edges.subjects.statsd import Statsd
from benchmarks.edges.subjects.streams import Streams
from benchmarks.edges.subjects.webhooks_out import WebhooksOut

SUBJECTS: tuple[type[Subject], ...] = (Produce, Streams, Statsd, Direct, WebhooksOut)


if __name__ == "__main__":
    run_command(
        about="Compare HTTP with a bare FastAPI route, measure streams, and compare StatsD with npm's statsd.",
        name="edges",
        subjects=SUBJECTS,
        rows_example="stream-*",
        bench=Bench,
        sizes=FULL,
        quick_sizes=QUICK,
    )
