"""Compare operators with Spark's own, with one state call per key, and with Flink SQL."""

from __future__ import annotations

from benchmarks.command import run_command
from benchmarks.operators.bench import FULL, QUICK, Bench, Subject
from benchmarks.operators.subjects.core import Core
from benchmarks.operators.subjects.flink import FlinkSql
from benchmarks.operators.subjects.join import Join
from benchmarks.operators.subjects.keys import KeptKeys
from benchmarks.operators.subjects.windows import NativeWindows, Panes

SUBJECTS: tuple[type[Subject], ...] = (NativeWindows, Panes, Core, Join, FlinkSql, KeptKeys)


if __name__ == "__main__":
    run_command(
        about="Compare operators with Spark's own, with one state call per key, and with Flink SQL.",
        name="operators",
        subjects=SUBJECTS,
        rows_example="flink-*",
        bench=Bench,
        sizes=FULL,
        quick_sizes=QUICK,
    )
