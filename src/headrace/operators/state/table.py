"""The state of a bucket: a few runs, in which rows of newer runs replace those of older runs.

A step reads the rows of the ids that it touches, and returns the rows that changed, which become the newest run. The
bytes written are proportional to the rows touched. Runs of similar size are merged, `LIKE_MAX` at a time, as in a
log-structured merge tree: a row is rewritten about log(size of the state) times, to the base `LIKE_MAX`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.operators.state.ids import Hashes, Ids, Ints, contains, distinct
from headrace.operators.state.run import (
    ID,
    ID_TYPE,
    NEVER,
    TOMBSTONE,
    Run,
    ids_of_column,
    merge,
    newest,
    without_tombstones,
)

HASHES = ("h1", "h2")
"""The columns of an input row with the hashes of its key."""

LIKE_MAX = 16
"""How many runs of similar size are merged. More runs make a look-up slower; fewer runs rewrite rows more often."""


def state_schema(columns: Sequence[pa.Field]) -> pa.Schema:
    """The schema of the rows that a step reads and writes: an id, and the columns of the step."""
    return pa.schema([pa.field(ID, ID_TYPE), *columns])


class StateTable:
    """An immutable list of runs, oldest first."""

    expired_us: int | None = None
    """The watermark until which rows have expired; None if rows are deleted instead."""

    def __init__(self, schema: pa.Schema, runs: Sequence[Run] = ()) -> None:
        self.schema = schema
        self.runs = tuple(runs)

    def take(self, ids: Ids) -> pa.Table:
        """All rows of these ids, which are unique, in any order."""
        parts = []
        for run in reversed(self.runs):
            found, positions = run.find(ids)
            if len(positions):
                parts.append(run.rows.take(pa.array(positions)).drop_columns([TOMBSTONE]))
            ids = ids[~found]
            if len(ids) == 0:
                break
        return pa.concat_tables(parts) if parts else self.schema.empty_table()

    def all_rows(self) -> pa.Table:
        return self.current([run.rows for run in self.runs])

    def current(self, parts: Sequence[pa.Table]) -> pa.Table:
        """Of rows that were taken from the runs, oldest run first, those that no newer run replaces."""
        if not parts:
            return self.schema.empty_table()
        return without_tombstones(newest(parts)).drop_columns([TOMBSTONE])

    def due(self, column: str, until: int) -> Ids:
        """The distinct ids that have a row whose time in this column is at most `until`."""
        parts: list[Ids] = []
        for number, run in enumerate(self.runs):
            if run.earliest(column) > until:
                continue
            ids = run.ids[(run.ints(column) <= until) & ~run.tombstones]
            for newer in self.runs[number + 1 :]:
                if len(ids):
                    ids = ids[~contains(newer.ids, ids)]
            if len(ids):
                parts.append(ids)
        return distinct(np.concatenate(parts)) if parts else np.empty(0, dtype=np.complex128)

    def next_due(self, column: str, after: int) -> int:
        """The earliest time in this column after the given one, or NEVER.

        It may belong to a row that a newer run replaces: then the timer fires in vain.
        """
        return min((run.earliest_after(column, after) for run in self.runs), default=NEVER)

    def with_changes(self, rows: pa.Table, deleted: Ids) -> StateTable:
        """The table after a step: `rows` replace all rows of their ids, and deleted ids have none."""
        assert rows.schema.equals(self.schema), (rows.schema, self.schema)
        if rows.num_rows == 0 and len(deleted) == 0:
            return self
        return StateTable(self.schema, merge_like_sizes([*self.runs, Run.of(rows, deleted)]))


def merge_like_sizes(runs: Sequence[Run]) -> list[Run]:
    """Merge runs that are smaller than a newer one, and runs of similar size if there are too many of them.

    All runs are merged when the newer ones have as many rows as the oldest, which bounds the space of replaced rows;
    and when many rows of the oldest are deleted, so that a bucket without live rows frees its space.
    """
    kept = list(runs)
    count = _mergeable(kept)
    while count > 1 or (len(kept) == 1 and kept[0].tombstone_count):
        kept[-count:] = [merge(kept[-count:], is_oldest=count == len(kept))]
        count = _mergeable(kept)
    return [run for run in kept if len(run)]


def _mergeable(runs: Sequence[Run]) -> int:
    """How many of the newest runs to merge; 1 for none."""
    oldest, *others = runs
    if sum(map(len, others)) >= len(oldest) or 2 * sum(run.tombstone_count for run in runs) >= len(oldest):
        return len(runs)
    sizes = [_magnitude(run) for run in runs]
    smaller = next((place for place, size in enumerate(sizes) if size < max(sizes[place:])), len(runs))
    like = sizes.index(sizes[-1])
    if len(runs) - like >= LIKE_MAX:
        smaller = min(smaller, like)
    return max(len(runs) - smaller, 1)


def _magnitude(run: Run) -> int:
    return int(math.log(len(run), LIKE_MAX))


def ids_in(rows: pa.Table) -> Ids:
    return ids_of_column(rows.column(ID))


def hashes_of(rows: pa.Table) -> tuple[Hashes, Hashes]:
    first, second = (ints_of(rows, name).view(np.uint64) for name in HASHES)
    return first, second


def column_of(table: pa.Table, name: str) -> pa.Array:
    """A column as one array."""
    column = table.column(name)
    chunks = column.chunks or [pa.array([], column.type)]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def ints_of(table: pa.Table, name: str) -> Ints:
    return np.asarray(column_of(table, name)).astype(np.int64, copy=False)


def with_column(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    """The table with other values in a column."""
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place), column)


def filled(
    schema: pa.Schema, columns: Mapping[str, pa.Array], count: int, defaults: Mapping[str, Any]
) -> pa.Table:
    """A table of `count` rows. Missing columns have their default, or else null."""
    arrays = [
        columns[field.name]
        if field.name in columns
        else pa.repeat(pa.scalar(defaults.get(field.name), field.type), count)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)
