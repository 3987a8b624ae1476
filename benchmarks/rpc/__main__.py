"""Compare answers to questions with Storm's DRPC, and with Spark's reader of the state."""

from __future__ import annotations

from benchmarks.command import run_command
from benchmarks.rpc.bench import FULL, QUICK, Bench, Subject
from benchmarks.rpc.subjects.answers import Answers

SUBJECTS: tuple[type[Subject], ...] = (Answers,)


if __name__ == "__main__":
    run_command(
        about="Compare answers to questions with Storm's DRPC, and with Spark's reader of the state.",
        name="rpc",
        subjects=SUBJECTS,
        rows_example="answer-*",
        bench=Bench,
        sizes=FULL,
        quick_sizes=QUICK,
    )
