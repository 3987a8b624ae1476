"""The output of commands: tables for people, JSON for programs, notes besides the data.

What a command prints as JSON is a value of a class that `result` declares, so that the reference names every field.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import astuple

from headrace.printable import printable, printable_json, printable_lines

if TYPE_CHECKING:
    from rich.text import Text

# Wide enough that a table in a pipe is never cut: a program reads it, not a screen.
PIPE_COLUMNS = 100_000


OutputFormat = Literal["text", "json"]
Format = Annotated[OutputFormat, typer.Option("--format", help="text for people, json for programs.")]


class Shape(StrEnum):
    """How a command prints its results as JSON."""

    ONE = "one object"
    LIST = "a list of objects"
    LINES = "an object on each line"


class Result(Struct, frozen=True):
    kind: type[Any]
    shape: Shape


RESULTS: dict[str, Result] = {}
"""The JSON of each command with `--format json`; filled as the commands are imported."""

KindT = TypeVar("KindT", bound=type)


def result(*commands: str, shape: Shape = Shape.ONE) -> Callable[[KindT], KindT]:
    """Declare a value as the JSON of these commands.

    A field is `Annotated[type, "what it means"]`. One with a default may be missing in the JSON.
    """

    def register(kind: KindT) -> KindT:
        for command in commands:
            assert command not in RESULTS, f"{command} has two results"
            RESULTS[command] = Result(kind, shape)
        return kind

    return register


def show(value: Any, format: OutputFormat, text: str | Callable[[], None]) -> None:
    """Print a result in this format; the text is a line, or a function that prints it."""
    if format == "json":
        print_json(value)
    elif isinstance(text, str):
        print(text)
    else:
        text()


def show_rows(rows: Sequence[Struct], format: OutputFormat, *, empty: str) -> None:
    """Print a list of results as a table of their fields, or `empty` if there are none."""
    show(rows, format, (lambda: print_rows(type(rows[0]), rows)) if rows else empty)


def note(text: str) -> None:
    """Print something that is not the command's data, on standard error."""
    print(printable_lines(text), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    print(printable_json(msgspec.to_builtins(value), indent=2))


def print_rows(kind: type[Struct], rows: Sequence[Struct], *, title: str = "") -> None:
    """A table with a column for each field."""
    columns = [name.replace("_", " ") for name in kind.__struct_fields__]
    print_table(columns, [astuple(row) for row in rows], title=title)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
    """A table with numbers aligned to the right. None is shown as '-', a list with commas."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(columns):
        is_number = rows and all(isinstance(row[index], int | float | None) for row in rows)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console = Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS, highlight=False, markup=False)
    if title:
        console.print(printable(title))
    console.print(table)


def plain_text(text: str) -> Text:
    """For a cell of a table: in a plain string, rich interprets brackets as markup."""
    from rich.text import Text

    return Text(printable(text))


def _cell(value: object) -> str:
    if isinstance(value, list):
        return printable(", ".join(map(str, value)))
    return "-" if value is None else printable(str(value))


@contextmanager
def ended_by_closed_pipe() -> Iterator[None]:
    """If the reader closes the pipe, as `| head` does, the command ends without an error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as error:
        # Python would raise again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from error


@contextmanager
def progress_bar(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, if it is a terminal and the total is known; the function sets how much is done."""
    if total is None or not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.update(task, completed=done)


def format_time(timestamp_ms: float) -> str:
    """2026-11-15T10:35:12.123Z"""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
