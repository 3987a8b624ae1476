"""The command line of all benchmarks: chooses subjects, runs them in interleaved rounds, stores the figures.

The help texts contain the subjects and sides of the benchmark, so annotations are evaluated here.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from benchmarks.bench import Subject
from benchmarks.measurements import Side
from benchmarks.runner import (
    RESULTS,
    ROUNDS,
    BenchKind,
    Run,
    chosen_sides,
    chosen_subjects,
    run_benchmark,
)

Sizes = TypeVar("Sizes")


def run_command(
    *,
    about: str,
    name: str,
    subjects: Sequence[type[Subject[BenchKind]]],
    rows_example: str,
    bench: Callable[..., BenchKind],
    sizes: Sizes,
    quick_sizes: Sizes,
) -> None:
    """Run the command line, with exit code 1 if a part failed. `name` is the name of the file with the figures."""
    subject_names = ", ".join(subject.name for subject in subjects)
    side_names = ", ".join(side for side in Side if any(side in subject.sides for subject in subjects))

    def main(
        quick: Annotated[
            bool,
            typer.Option("--quick", help="One small round: checks that everything works, measures nothing."),
        ] = False,
        only: Annotated[
            str | None, typer.Option(help=f"Subjects, separated by commas: {subject_names}.")
        ] = None,
        rows: Annotated[str, typer.Option(help=f"Only rows that match, such as '{rows_example}'.")] = "*",
        sides: Annotated[str | None, typer.Option(help=f"{side_names}; all by default.")] = None,
        rounds: Annotated[int | None, typer.Option(min=1, help=f"Rounds; {ROUNDS} by default.")] = None,
        json_path: Annotated[
            Path, typer.Option("--json", help="File for the figures.", show_default=False)
        ] = RESULTS / f"{name}.json",
        workplace: Annotated[
            Path,
            typer.Option(help="Folder for temporary files, on the disk to measure.", show_default=False),
        ] = RESULTS,
        update_docs_page: Annotated[
            bool, typer.Option("--update-docs", help="Write the tables into docs/benchmarks.md.")
        ] = False,
    ) -> None:
        run = Run(
            quick=quick,
            rounds=rounds,
            json_path=json_path,
            workplace=workplace,
            update_docs_page=update_docs_page,
        )
        measurements = run_benchmark(
            run,
            chosen_subjects(only, subjects),
            chosen_sides(sides),
            lambda folder, show_step: bench(
                sizes=quick_sizes if quick else sizes, workplace=folder, rows_wanted=rows, show_step=show_step
            ),
        )
        raise typer.Exit(1 if measurements.failures else 0)

    main.__doc__ = about
    typer.run(main)
