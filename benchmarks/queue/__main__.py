"""Compare Headrace's queues and transactions with RabbitMQ and Apache Kafka."""

from __future__ import annotations

from benchmarks.command import run_command
from benchmarks.queue.bench import FULL, QUICK, Bench, Subject
from benchmarks.queue.subjects.backlog import Backlog
from benchmarks.queue.subjects.locks import Locks
from benchmarks.queue.subjects.messages import Messages
from benchmarks.queue.subjects.ordered import Ordered
from benchmarks.queue.subjects.transactions import Transactions

SUBJECTS: tuple[type[Subject], ...] = (Messages, Transactions, Locks, Backlog, Ordered)


if __name__ == "__main__":
    run_command(
        about="Compare Headrace's queues and transactions with RabbitMQ and Apache Kafka.",
        name="queue",
        subjects=SUBJECTS,
        rows_example="messages-fsync-*",
        bench=Bench,
        sizes=FULL,
        quick_sizes=QUICK,
    )
