"""Selections where the store has no SQL of its own: which rows to read, and DuckDB over Arrow datasets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

from headrace.conditions.expression import Call, Column, Literal, Value
from headrace.views.errors import BadView
from headrace.views.query.kinds import Kind
from headrace.views.query.sql import DUCKDB, rendered
from headrace.views.query.text import condition
from headrace.views.selection import Selection

SCAN_ROWS_MAX = 100_000
"""Rows that a store without SQL reads for one selection: some seconds, and a few hundred megabytes."""

THREADS_MAX = 2
"""A reader is one of many on its machine."""

_ROWS = "headrace_rows"


def select_from_dataset(dataset: Any, selection: Selection) -> list[dict[str, Any]]:
    """The selected rows of an Arrow dataset. DuckDB passes conditions on, so that only matching files are read."""
    sql = rendered(selection, DUCKDB, kinds_of(dataset.schema))
    with duckdb.connect(config={"enable_external_access": "false", "threads": THREADS_MAX}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register(_ROWS, dataset)
        try:
            found = connection.sql(f"SELECT * FROM {_ROWS} {sql.text}", params=list(sql.values))
            rows: list[dict[str, Any]] = found.to_arrow_table().to_pylist(maps_as_pydicts="strict")
        except duckdb.Error as error:
            raise BadView(
                f"the selection cannot be evaluated: {error}",
                hint="compare columns with values of their type",
            ) from error
    return rows


def kinds_of(schema: pa.Schema) -> dict[str, Kind]:
    return {
        field.name: next((kind for is_kind, kind in _KINDS if is_kind(field.type)), Kind.OTHER)
        for field in schema
    }


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], Kind], ...] = (
    (pa.types.is_boolean, Kind.BOOLEAN),
    (pa.types.is_integer, Kind.INTEGER),
    (pa.types.is_float32, Kind.REAL),
    (pa.types.is_float64, Kind.DOUBLE),
    (pa.types.is_decimal, Kind.DECIMAL),
    (pa.types.is_string, Kind.TEXT),
    (pa.types.is_binary, Kind.BINARY),
    (pa.types.is_date, Kind.DATE),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, Kind.TIMESTAMP),
    (pa.types.is_timestamp, Kind.TIMESTAMP_NTZ),
    (pa.types.is_nested, Kind.JSON),
)


def equalities(selection: Selection) -> dict[str, Value]:
    """The columns that have one value in all selected rows: `city = 'Oslo' AND …`. A store that finds rows by value
    reads only these, and evaluates the whole condition on them."""
    tree = condition(selection.where)
    parts = tree.arguments if isinstance(tree, Call) and tree.name == "and" else (tree,)
    found: dict[str, Value] = {}
    for part in parts:
        match part:
            case Call("=", (Column(name), Literal(value)) | (Literal(value), Column(name))):
                found[name] = value
    return found


def too_many_rows(view: str, rows: int, hint: str) -> BadView:
    return BadView(
        f"view {view}: the selection would read {rows:,} rows, more than {SCAN_ROWS_MAX:,}", hint=hint
    )
