"""The command line: choose subjects, run them in interleaved rounds, show and keep what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.queue.bench import FULL, QUICK, Bench, Subject
from benchmarks.queue.subjects.backlog import Backlog
from benchmarks.queue.subjects.locks import Locks
from benchmarks.queue.subjects.messages import Messages
from benchmarks.queue.subjects.transactions import Transactions
from benchmarks.runner import RESULTS, ROUNDS, Run, Say, chosen_sides, chosen_subjects, run_benchmark

SUBJECTS: tuple[type[Subject], ...] = (Messages, Transactions, Locks, Backlog)
NAMES = ", ".join(subject.name for subject in SUBJECTS)


def main(
    quick: Annotated[
        bool, typer.Option("--quick", help="One small round: shows that all works, measures nothing.")
    ] = False,
    only: Annotated[str | None, typer.Option(help=f"Subjects, with commas between: {NAMES}.")] = None,
    rows: Annotated[str, typer.Option(help="Only rows that match, as in 'messages-fsync-*'.")] = "*",
    sides: Annotated[
        str | None,
        typer.Option(help="headrace, kafka, rabbitmq-classic, rabbitmq-quorum; all by default."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help=f"Rounds; {ROUNDS} by default.")] = None,
    json_path: Annotated[
        Path, typer.Option("--json", help="Where the figures go.", show_default=False)
    ] = RESULTS / "queue.json",
    workplace: Annotated[
        Path, typer.Option(help="Folder on the disk to measure; emptied afterwards.", show_default=False)
    ] = RESULTS,
    update_docs_page: Annotated[
        bool, typer.Option("--update-docs", help="Write the tables into docs/benchmarks.md.")
    ] = False,
) -> None:
    """Measure Headrace's queues and transactions beside RabbitMQ and Apache Kafka."""
    run = Run(
        quick=quick,
        rounds=rounds,
        json_path=json_path,
        workplace=workplace,
        update_docs_page=update_docs_page,
    )

    def make_bench(folder: Path, say: Say) -> Bench:
        return Bench(sizes=QUICK if quick else FULL, workplace=folder, rows_wanted=rows, say=say)

    measurements = run_benchmark(run, chosen_subjects(only, SUBJECTS), chosen_sides(sides), make_bench)
    raise typer.Exit(1 if measurements.failures else 0)


if __name__ == "__main__":
    typer.run(main)
