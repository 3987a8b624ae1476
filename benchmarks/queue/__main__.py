"""Measure Headrace's queues and transactions beside RabbitMQ and Apache Kafka."""

from __future__ import annotations

from pathlib import Path

from benchmarks.command import run_command
from benchmarks.queue.bench import FULL, QUICK, Bench, Subject
from benchmarks.queue.subjects.backlog import Backlog
from benchmarks.queue.subjects.locks import Locks
from benchmarks.queue.subjects.messages import Messages
from benchmarks.queue.subjects.transactions import Transactions
from benchmarks.runner import Say

SUBJECTS: tuple[type[Subject], ...] = (Messages, Transactions, Locks, Backlog)


def make_bench(is_quick: bool, workplace: Path, rows_wanted: str, say: Say) -> Bench:
    return Bench(sizes=QUICK if is_quick else FULL, workplace=workplace, rows_wanted=rows_wanted, say=say)


if __name__ == "__main__":
    run_command(
        about="Measure Headrace's queues and transactions beside RabbitMQ and Apache Kafka.",
        name="queue",
        subjects=SUBJECTS,
        rows_example="messages-fsync-*",
        make_bench=make_bench,
    )
