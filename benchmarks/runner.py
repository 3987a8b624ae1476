"""Runs the subjects of a benchmark in interleaved rounds, and prints and stores the figures."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.bench import Bench, Subject
from benchmarks.machine import machine_facts
from benchmarks.measurements import Measurements, Side
from benchmarks.report import print_tables, update_docs, write_json

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results"
DOCS_PAGE = REPOSITORY / "docs" / "benchmarks.md"
ROUNDS = 3

BenchKind = TypeVar("BenchKind", bound=Bench)
ShowStep = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The options of the command line, which are the same for every benchmark."""

    quick: bool
    rounds: int | None
    json_path: Path
    workplace: Path
    update_docs_page: bool


def chosen_subjects(
    only: str | None, subjects: Iterable[type[Subject[BenchKind]]]
) -> list[Subject[BenchKind]]:
    by_name = {subject.name: subject for subject in subjects}
    wanted = [name.strip() for name in only.split(",")] if only else list(by_name)
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        known = ", ".join(by_name)
        raise typer.BadParameter(f"{', '.join(unknown)} is unknown; choose from {known}", param_hint="--only")
    return [by_name[name]() for name in wanted]


def chosen_sides(sides: str | None) -> tuple[Side, ...]:
    try:
        return tuple(Side(name.strip()) for name in sides.split(",")) if sides else tuple(Side)
    except ValueError as unknown:
        raise typer.BadParameter(f"{unknown}; choose from {', '.join(Side)}", param_hint="--sides") from None


def run_subjects(
    subjects: Sequence[Subject[BenchKind]],
    sides: Sequence[Side],
    rounds: int,
    bench: BenchKind,
    progress: Progress,
) -> Measurements:
    """Run one subject after the other, with interleaved rounds: one side, the other, the first again."""
    measurements = Measurements()
    total = sum(rounds * len(set(subject.sides) & set(sides)) for subject in subjects)
    task = progress.add_task("", total=total, now="")

    def attempt(subject: Subject[BenchKind], side: Side, round_number: int | None) -> None:
        heading = f"{subject.name} · {side} · " + (f"round {round_number}" if round_number else "preparing")
        progress.update(task, description=heading)
        try:
            if round_number is None:
                subject.prepare(side, bench)
                return
            for row_key, sample in subject.measure(side, bench):
                measurements.add(row_key, side, sample)
        except Exception as error:  # a failure must not lose the other measurements
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


def _step_display(progress: Progress) -> ShowStep:
    def show_step(what: str) -> None:
        for task_id in progress.task_ids:
            progress.update(task_id, now=what)

    return show_step


def run_benchmark(
    run: Run,
    subjects: Sequence[Subject[BenchKind]],
    sides: Sequence[Side],
    make_bench: Callable[[Path, ShowStep], BenchKind],
) -> Measurements:
    """Run the benchmark. The caller handles failures. `make_bench` gets the working folder."""
    if run.quick and run.update_docs_page:
        raise typer.BadParameter("the figures of a quick run mean nothing", param_hint="--update-docs")
    rounds = run.rounds or (1 if run.quick else ROUNDS)
    measured = f"Measured on {datetime.now(UTC):%Y-%m-%d}, medians of {rounds} (least to most)."
    # A narrow terminal would cut the figures; output to a file gets the full width.
    console = Console()
    if not console.is_terminal:
        console = Console(width=220)
    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TextColumn("{task.fields[now]}"), console=console, transient=True) as progress:
        run.workplace.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="work-", dir=run.workplace))
        try:
            measurements = run_subjects(
                subjects, sides, rounds, make_bench(folder, _step_display(progress)), progress
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print_tables(console, subjects, measurements)
    if run.quick:
        console.print("A quick run: sizes are a fraction of those in the rows, and the figures mean nothing.")
    machine = machine_facts()
    facts = {"measured": measured, "quick": run.quick, "machine": machine}
    write_json(run.json_path, subjects, measurements, facts)
    console.print(f"The figures are in {run.json_path}")
    if run.update_docs_page:
        update_docs(DOCS_PAGE, subjects, measurements, machine, measured)
    return measurements
