"""The output of `headrace job state`: a table for each stateful operator, or JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from headrace.cli.output import Shape, format_time, note, print_json, print_table, result
from headrace.errors import HeadraceError
from headrace.pipeline.run.state import read_job_state

if TYPE_CHECKING:
    from headrace.pipeline.run.state import OperatorState

NEVER_US = 2**63 - 1
"""Never, in the state of operators."""

TIMES = ("start", "end")
_CELL_CHARACTERS_MAX = 80
"""A collected list may be long; JSON has all of it."""


def show_state(
    data_dir: str, job: str, *, keys: Sequence[str], operator: int | None, limit: int, as_json: bool
) -> None:
    states = read_job_state(
        data_dir,
        job,
        rows_max=limit,
        operator=operator,
        keys=_keys(keys),
        notify=lambda text: note(f"{text} …"),
    )
    if as_json:
        print_json([_as_json(each) for each in states])
        return
    for state in states:
        shown = "" if state.count <= state.rows.num_rows else f", the first {state.rows.num_rows:,} shown"
        typer.echo(
            f"operator {state.number}: {state.name}, batch {state.batch_id}, {state.count:,} rows{shown}"
        )
        if state.rows.num_rows:
            columns = state.rows.column_names
            rows = [[_cell(name, row[name]) for name in columns] for row in state.rows.to_pylist()]
            print_table([name.removesuffix("_us") for name in columns], rows)


def _keys(given: Sequence[str]) -> Sequence[str] | Mapping[str, str]:
    """By name if all of them have one; a value with a = in it can be given by name only."""
    named = [each.partition("=") for each in given]
    if not any(sign for _, sign, _ in named):
        return given
    if not all(sign for _, sign, _ in named):
        raise HeadraceError(
            "some --key have a name and some have none", hint="--key user=ann --key url=/shop, or --key ann"
        )
    return {name: text for name, _, text in named}


@result("job state", shape=Shape.LIST)
class JsonState(Struct, frozen=True, kw_only=True):
    operator: Annotated[int, "its number in the plan"]
    name: str
    batch: Annotated[int, "the last committed batch"]
    keys: Annotated[list[str], "the columns that are the key"]
    count: Annotated[int, "all rows that match, also those beyond --limit"]
    rows: Annotated[list[dict[str, Any]], "times are microseconds after the epoch, bytes are base64"]


def _as_json(state: OperatorState) -> JsonState:
    return JsonState(
        operator=state.number,
        name=state.name,
        batch=state.batch_id,
        keys=list(state.keys),
        count=state.count,
        rows=[{name: _plain(got) for name, got in row.items()} for row in state.rows.to_pylist()],
    )


def _cell(name: str, got: Any) -> object:
    if got is not None and isinstance(got, int) and (name in TIMES or name.endswith("_us")):
        return _time(got)
    plain = _plain(got)
    if plain is None or isinstance(plain, int | float):
        return plain
    text = str(plain)
    return text if len(text) <= _CELL_CHARACTERS_MAX else text[: _CELL_CHARACTERS_MAX - 1] + "…"


def _time(at_us: int) -> str:
    if at_us >= NEVER_US:
        return "never"
    try:
        return format_time(at_us / 1000)
    except (ValueError, OverflowError):
        return str(at_us)


def _plain(got: Any) -> Any:
    """A value that JSON has."""
    if got is None or isinstance(got, str | int | float):
        return got
    if isinstance(got, bytes):
        return base64.b64encode(got).decode()
    if isinstance(got, list | tuple):
        return [_plain(each) for each in got]
    if isinstance(got, dict):
        return {str(name): _plain(each) for name, each in got.items()}
    return str(got)
