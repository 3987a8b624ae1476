"""Compare patterns and searches on streams with the systems that have them."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.command import run_command
from benchmarks.operators.bench import FULL, QUICK, Bench, Subject
from benchmarks.patterns.subjects.row_patterns import RowPatterns

SUBJECTS: tuple[type[Subject], ...] = (RowPatterns,)


if __name__ == "__main__":
    run_command(
        about="Compare row patterns with Flink's MATCH_RECOGNIZE.",
        name="patterns",
        subjects=SUBJECTS,
        rows_example="row-pattern*",
        bench=Bench,
        sizes=replace(FULL, clicks=1_000_000),
        quick_sizes=QUICK,
    )
