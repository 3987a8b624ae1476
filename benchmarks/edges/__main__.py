"""Compare HTTP with a bare FastAPI route, standard input with kcat, and StatsD with npm's; measure streams."""

from __future__ import annotations

from benchmarks.command import run_command
from benchmarks.edges.bench import FULL, QUICK, Bench, Subject
from benchmarks.edges.subjects.direct import Direct
from benchmarks.edges.subjects.produce import Produce
from benchmarks.edges.subjects.rest_proxy import RestProxy
from benchmarks.edges.subjects.statsd import Statsd
from benchmarks.edges.subjects.stdin import Stdin
from benchmarks.edges.subjects.streams import Streams
from benchmarks.edges.subjects.webhooks_out import WebhooksOut

SUBJECTS: tuple[type[Subject], ...] = (Produce, RestProxy, Stdin, Streams, Statsd, Direct, WebhooksOut)


if __name__ == "__main__":
    run_command(
        about="Compare HTTP with a bare FastAPI route, standard input with kcat, StatsD with npm's; measure streams.",
        name="edges",
        subjects=SUBJECTS,
        rows_example="stream-*",
        bench=Bench,
        sizes=FULL,
        quick_sizes=QUICK,
    )
