"""The output of a run: a table for the terminal, JSON for programs, and the tables of docs/benchmarks.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.bench import Subject
from benchmarks.measurements import SIDE_NAMES, Measurements, Row, Side, Summary
from headrace.errors import HeadraceError

RESULT_COLUMN = "result"
_STYLES = {"not reached": "bold red", "aim reached": "bold green", "reached": "green"}


class DocsLackMarkers(HeadraceError):
    """The page has no markers for a table."""


def columns(subject: Subject[Any]) -> tuple[str, ...]:
    """Headrace and its peers side by side. A bare peer has no column: its figures are with the goal."""
    names = [SIDE_NAMES[side] for side in _compared(subject)]
    return ("what", *names, "ratio", "goal", RESULT_COLUMN, f"CPU s/M ({', '.join(names)})")


def _compared(subject: Subject[Any]) -> list[Side]:
    return [side for side in Side if side in subject.sides and side is not Side.BARE]


def cells(subject: Subject[Any], row: Row, measurements: Measurements) -> tuple[str, ...]:
    """A row of the table as text, with the ratio to the best peer."""
    compared = [measurements.summary(row.key, side) for side in _compared(subject)]
    best = measurements.best_peer(row)
    ratio = None if best is None else measurements.ratio(row.key, best)
    results = measurements.results(row)
    goal = "; ".join(result.text for result in results) or "; ".join(goal.text() for goal in row.goals)
    verdict = "; ".join(_verdict(result.verdict, result.figure) for result in results)
    bare = measurements.summary(row.key, Side.BARE)
    if bare is not None:
        share = measurements.ratio(row.key, Side.BARE)
        goal = "; ".join(filter(None, (f"bare: {_figures(bare)}", goal)))
        verdict = verdict or ("" if share is None else f"{share:.0%} of bare")
    return (
        f"{row.what} ({row.unit})",
        *(_figures(summary) for summary in compared),
        "" if ratio is None else f"{ratio:.2f} ×",
        goal,
        verdict,
        _cpu(compared, bare),
    )


def _verdict(verdict: str, figure: float) -> str:
    return f"{verdict} ({figure:.2f})"


def _figures(summary: Summary | None) -> str:
    if summary is None:
        return ""
    if summary.rounds == 1:
        return _number(summary.median)
    return f"{_number(summary.median)} ({_number(summary.least)} to {_number(summary.most)})"


def _number(value: float) -> str:
    """Three digits, the precision of a benchmark."""
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def _cpu(summaries: Sequence[Summary | None], bare: Summary | None) -> str:
    known = [each.broker_cpu_s_per_million if each else None for each in summaries]
    text = ", ".join("–" if value is None else f"{value:.2f}" for value in known)
    if all(value is None for value in known):
        text = ""
    if bare is not None and bare.broker_cpu_s_per_million is not None:
        text += f" (bare {bare.broker_cpu_s_per_million:.2f})"
    return text


def rows_measured(subject: Subject[Any], measurements: Measurements) -> list[Row]:
    return [row for row in subject.rows if any(measurements.samples(row.key, side) for side in Side)]


def print_tables(console: Console, subjects: Sequence[Subject[Any]], measurements: Measurements) -> None:
    for subject in subjects:
        table = Table(*columns(subject), title=subject.title, title_justify="left", expand=False)
        result_index = columns(subject).index(RESULT_COLUMN)
        for row in rows_measured(subject, measurements):
            texts: list[str | Text] = list(cells(subject, row, measurements))
            verdict = str(texts[result_index])
            style = next((style for word, style in _STYLES.items() if word in verdict), "")
            texts[result_index] = Text(verdict, style=style)
            table.add_row(*texts)
        console.print(table)
    for failure in measurements.failures:
        console.print(Text(failure, style="bold red"))


def write_json(
    path: Path, subjects: Sequence[Subject[Any]], measurements: Measurements, facts: dict[str, Any]
) -> None:
    content = {
        **facts,
        "failures": measurements.failures,
        "rows": [
            _row_json(subject, row, measurements)
            for subject in subjects
            for row in rows_measured(subject, measurements)
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def _row_json(subject: Subject[Any], row: Row, measurements: Measurements) -> dict[str, Any]:
    sides = {}
    for side in Side:
        summary = measurements.summary(row.key, side)
        if summary is not None:
            samples = [asdict(sample) for sample in measurements.samples(row.key, side)]
            sides[side.value] = {**asdict(summary), "samples": samples}
    return {
        "subject": subject.name,
        "row": row.key,
        "what": row.what,
        "unit": row.unit.value,
        "sides": sides,
        "best_peer": measurements.best_peer(row),
        "ratio_to_kafka": measurements.ratio(row.key),
        "ratio_to_bare": measurements.ratio(row.key, Side.BARE),
        "goals": [asdict(result) for result in measurements.results(row)],
    }


def update_docs(
    page: Path,
    subjects: Sequence[Subject[Any]],
    measurements: Measurements,
    machine: dict[str, str],
    measured: str,
) -> None:
    """Write the table of each measured subject, and the machine, between their markers."""
    text = page.read_text()
    for subject in subjects:
        text = _between_markers(text, subject.name, f"{measured}\n\n{_markdown(subject, measurements)}")
    listed = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    page.write_text(_between_markers(text, "machine", listed))


def _markdown(subject: Subject[Any], measurements: Measurements) -> str:
    heads = columns(subject)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += [
        "| " + " | ".join(cells(subject, row, measurements)) + " |"
        for row in rows_measured(subject, measurements)
    ]
    return "\n".join(lines)


def _between_markers(text: str, name: str, content: str) -> str:
    begin, end = f"<!-- measured {name}: begin -->", f"<!-- measured {name}: end -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise DocsLackMarkers(
            f"the page has no markers for {name}", hint=f"put {begin} and {end} into the page"
        )
    return f"{before}{begin}\n{content}\n{end}{after}"
