"""Rows that pass through a step, which needs only the hashes of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headrace.operators.operator import column
from headrace.operators.state.ids import Hashes, Ints, is_first
from headrace.operators.state.table import HASHES, hashes_of
from headrace.plan_names import EMITTED_TIME, EVENT_TIME, WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HASH_COLUMNS = [pa.field(name, pa.int64()) for name in HASHES]

_TIME_METADATA = (EVENT_TIME, EMITTED_TIME, WATERMARK_DELAY)


class DistinctKeys(Struct, frozen=True):
    """The distinct keys of rows."""

    first: Hashes
    second: Hashes
    counts: Ints
    """The number of rows of each key."""
    heads: Ints
    """The position of the first row of each key."""
    numbers: Ints
    """The number of the key of each row."""


def key_hashes(rows: pa.Table) -> DistinctKeys:
    first, second = hashes_of(rows)
    order = np.lexsort((second, first))
    is_new = is_first(first[order], second[order])
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    heads = order[is_new]
    return DistinctKeys(
        first[heads], second[heads], np.bincount(numbers, minlength=len(heads)), heads, numbers
    )


def row_fields(columns: Sequence[pa.Field]) -> list[pa.Field]:
    """The columns of a row under names that can't clash."""
    return [pa.field(f"c{number}", each.type) for number, each in enumerate(columns)]


def selected(rows: DataFrame, key: Sequence[str], *, operator: str, field: str) -> list[Column]:
    """The hashes of the key, and the columns of the row."""
    from headrace.operators.state.keys import hashes, key_parts

    return [
        *hashes(key_parts(rows, key, operator=operator, field=field), "h"),
        *(column(name).alias(f"c{number}") for number, name in enumerate(rows.columns)),
    ]


def lift_rows(rows: pa.Table) -> tuple[pa.Table, Hashes]:
    """The rows as they are."""
    return rows, hashes_of(rows)[0]


def lift_first_rows(rows: pa.Table) -> tuple[pa.Table, Hashes]:
    """The first row of each key, for a step that needs no other."""
    return lift_rows(rows.take(pa.array(np.sort(key_hashes(rows).heads))))


def with_times_of(results: DataFrame, rows: DataFrame) -> DataFrame:
    """The results with the event time and the watermark of the rows, which keep their times."""
    times = {}
    for each in rows.schema:
        known = {name: each.metadata[name] for name in _TIME_METADATA if name in each.metadata}
        if known:
            times[each.name] = column(each.name).alias(each.name, metadata=known)
    return results.withColumns(times) if times else results
