"""Compare captures of PostgreSQL with `COPY` and with Debezium's engine, and measure views that follow them."""

from __future__ import annotations

from benchmarks.cdc.bench import FULL, QUICK, Bench, Subject
from benchmarks.cdc.subjects.latency import Latency
from benchmarks.cdc.subjects.snapshot import Snapshot
from benchmarks.cdc.subjects.stream import Stream
from benchmarks.cdc.subjects.transaction import LargeTransaction
from benchmarks.cdc.subjects.view_latency import ViewLatency
from benchmarks.cdc.subjects.view_rebuild import ViewRebuild
from benchmarks.command import run_command

SUBJECTS: tuple[type[Subject], ...] = (Stream, Snapshot, Latency, LargeTransaction, ViewLatency, ViewRebuild)


if __name__ == "__main__":
    run_command(
        about="Compare captures of PostgreSQL with COPY and with Debezium's engine.",
        name="cdc",
        subjects=SUBJECTS,
        rows_example="stream-*",
        bench=Bench,
        sizes=FULL,
        quick_sizes=QUICK,
    )
