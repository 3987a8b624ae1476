"""The command line: choose subjects, run them in interleaved rounds, show and keep what came out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.broker.bench import FULL, QUICK, Bench, Subject
from benchmarks.broker.machine import machine_facts
from benchmarks.broker.measurements import Measurements, Side
from benchmarks.broker.report import print_tables, update_docs, write_json
from benchmarks.broker.subjects.ceiling import Ceiling
from benchmarks.broker.subjects.consume import Consume
from benchmarks.broker.subjects.footprint import Footprint
from benchmarks.broker.subjects.latency import Latency
from benchmarks.broker.subjects.produce import ProduceFsync, ProduceOs
from benchmarks.broker.subjects.restart import Restart
from benchmarks.broker.subjects.scale import Scale

REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "benchmarks" / "results"
DOCS_PAGE = REPOSITORY / "docs" / "benchmarks.md"
ROUNDS = 3

SUBJECTS: tuple[type[Subject], ...] = (
    ProduceOs,
    ProduceFsync,
    Consume,
    Latency,
    Footprint,
    Scale,
    Restart,
    Ceiling,
)
NAMES = ", ".join(subject.name for subject in SUBJECTS)


def chosen_subjects(only: str | None) -> list[Subject]:
    wanted = [name.strip() for name in only.split(",")] if only else [each.name for each in SUBJECTS]
    by_name = {subject.name: subject for subject in SUBJECTS}
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise typer.BadParameter(f"there is no {', '.join(unknown)}; there are {NAMES}", param_hint="--only")
    return [by_name[name]() for name in wanted]


def chosen_sides(sides: str | None) -> tuple[Side, ...]:
    try:
        return tuple(Side(name.strip()) for name in sides.split(",")) if sides else tuple(Side)
    except ValueError as unknown:
        raise typer.BadParameter(f"{unknown}; there are {', '.join(Side)}", param_hint="--sides") from None


def run_subjects(
    subjects: Sequence[Subject], sides: Sequence[Side], rounds: int, bench: Bench, progress: Progress
) -> Measurements:
    """Every subject by itself, its rounds interleaved: one side, the other, the first again."""
    measurements = Measurements()
    total = sum(rounds * len(set(subject.sides) & set(sides)) for subject in subjects)
    task = progress.add_task("", total=total, now="")

    def attempt(subject: Subject, side: Side, round_number: int | None) -> None:
        heading = f"{subject.name} · {side} · " + (f"round {round_number}" if round_number else "preparing")
        progress.update(task, description=heading)
        try:
            if round_number is None:
                subject.prepare(side, bench)
                return
            for row_key, sample in subject.measure(side, bench):
                measurements.add(row_key, side, sample)
        except Exception as error:  # one broken part must not cost the other measurements
            measurements.failures.append(f"{heading}: {type(error).__name__}: {error}")

    for subject in subjects:
        taking_part = [side for side in subject.sides if side in sides]
        for side in taking_part:
            attempt(subject, side, None)
        for round_number in range(1, rounds + 1):
            for side in taking_part:
                attempt(subject, side, round_number)
                progress.advance(task)
    return measurements


def _say(progress: Progress) -> Callable[[str], None]:
    def say(what: str) -> None:
        for task_id in progress.task_ids:
            progress.update(task_id, now=what)

    return say


def main(
    quick: Annotated[
        bool, typer.Option("--quick", help="One small round: shows that all works, measures nothing.")
    ] = False,
    only: Annotated[str | None, typer.Option(help=f"Subjects, with commas between: {NAMES}.")] = None,
    rows: Annotated[str, typer.Option(help="Only rows that match, as in '*-java-100'.")] = "*",
    sides: Annotated[str | None, typer.Option(help="headrace, kafka, bare; all by default.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help=f"Rounds; {ROUNDS} by default.")] = None,
    json_path: Annotated[
        Path, typer.Option("--json", help="Where the figures go.", show_default=False)
    ] = RESULTS / "broker.json",
    workplace: Annotated[
        Path, typer.Option(help="Folder on the disk to measure; emptied afterwards.", show_default=False)
    ] = RESULTS,
    update_docs_page: Annotated[
        bool, typer.Option("--update-docs", help="Write the tables into docs/benchmarks.md.")
    ] = False,
) -> None:
    """Measure Headrace's broker beside Apache Kafka."""
    if quick and update_docs_page:
        raise typer.BadParameter("a quick run measures nothing worth keeping", param_hint="--update-docs")
    subjects, wanted_sides = chosen_subjects(only), chosen_sides(sides)
    rounds = rounds or (1 if quick else ROUNDS)
    measured = f"Measured on {datetime.now(UTC):%Y-%m-%d}, medians of {rounds} (least to most)."
    # A narrow terminal would cut the figures; output that goes to a file gets all the width it needs.
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TextColumn("{task.fields[now]}"), console=console, transient=True) as progress:
        workplace.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="work-", dir=workplace))
        bench = Bench(sizes=QUICK if quick else FULL, workplace=folder, rows_wanted=rows, say=_say(progress))
        try:
            measurements = run_subjects(subjects, wanted_sides, rounds, bench, progress)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print_tables(console, subjects, measurements)
    if quick:
        console.print("A quick run: sizes are a fraction of what the rows say, and the figures mean nothing.")
    machine = machine_facts()
    write_json(json_path, subjects, measurements, {"measured": measured, "quick": quick, "machine": machine})
    console.print(f"The figures are in {json_path}")
    if update_docs_page:
        update_docs(DOCS_PAGE, subjects, measurements, machine, measured)
    raise typer.Exit(1 if measurements.failures else 0)


if __name__ == "__main__":
    typer.run(main)
