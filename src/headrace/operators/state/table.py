"""The state of a bucket: a few runs, of which a newer one's rows replace an older one's.

A step reads the rows of the ids that it touches, and hands back the rows that changed, which become the newest run.
So what is written grows with what was touched. Runs of like size are merged, `LIKE_MAX` at a time, as in a
log-structured merge tree: a row is rewritten about as many times in its life as the logarithm of the state's size to
that base says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.operators.state.ids import Ids, contains
from headrace.operators.state.run import (
    GONE,
    ID,
    ID_TYPE,
    NEVER,
    Run,
    ids_of_column,
    merge,
    newest,
    without_gone,
)

LIKE_MAX = 16
"""So many runs of like size become one. With more there are more to search for every key; with fewer, rows are
rewritten more often."""


def state_schema(columns: Sequence[pa.Field]) -> pa.Schema:
    """What the rows that a step reads and writes look like: an id, and the step's own columns."""
    return pa.schema([pa.field(ID, ID_TYPE), *columns])


class StateTable:
    """Immutable. The oldest run comes first."""

    def __init__(self, schema: pa.Schema, runs: Sequence[Run] = ()) -> None:
        self.schema = schema
        self.runs = tuple(runs)

    def take(self, ids: Ids) -> pa.Table:
        """All rows of these ids, which are unique; in no order."""
        parts = []
        for run in reversed(self.runs):
            found, positions = run.find(ids)
            if len(positions):
                parts.append(run.rows.take(pa.array(positions)).drop_columns([GONE]))
            ids = ids[~found]
            if len(ids) == 0:
                break
        return pa.concat_tables(parts) if parts else self.schema.empty_table()

    def all_rows(self) -> pa.Table:
        return self.current([run.rows for run in self.runs])

    def current(self, parts: Sequence[pa.Table]) -> pa.Table:
        """Of rows that were taken from the runs, the oldest run's first: those that no newer run replaces."""
        if not parts:
            return self.schema.empty_table()
        return without_gone(newest(parts)).drop_columns([GONE])

    def due(self, column: str, until: int) -> Ids:
        """The ids, each once, that have a row whose time in this column has come."""
        parts: list[Ids] = []
        for number, run in enumerate(self.runs):
            if run.earliest(column) > until:
                continue
            ids = run.ids[(run.ints(column) <= until) & ~run.gone]
            for newer in self.runs[number + 1 :]:
                if len(ids):
                    ids = ids[~contains(newer.ids, ids)]
            if len(ids):
                parts.append(ids)
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.complex128)

    def next_due(self, column: str, after: int) -> int:
        """The earliest time in this column after the given one, or NEVER.

        It may be that of a row which a newer run replaces: whoever comes back then finds nothing to do.
        """
        return min((run.earliest_after(column, after) for run in self.runs), default=NEVER)

    def with_changes(self, rows: pa.Table, gone: Ids) -> StateTable:
        """`rows` are all there are of their ids from now on; the ids that are gone have none."""
        assert rows.schema.equals(self.schema), (rows.schema, self.schema)
        if rows.num_rows == 0 and len(gone) == 0:
            return self
        return StateTable(self.schema, merge_like_sizes([*self.runs, Run.of(rows, gone)]))


def merge_like_sizes(runs: Sequence[Run]) -> list[Run]:
    """From the newest on: what is smaller than something newer, and as many of like size as there may be.

    All of them are merged when the others have as many rows as the oldest, so that what was replaced does not take more
    room than what is there; and when much of the oldest is gone: else a bucket in which nothing is left, and to which
    nothing more comes, would keep what it had for good.
    """
    kept = list(runs)
    count = _mergeable(kept)
    while count > 1 or (len(kept) == 1 and kept[0].gone_count):
        kept[-count:] = [merge(kept[-count:], is_oldest=count == len(kept))]
        count = _mergeable(kept)
    return [run for run in kept if len(run)]


def _mergeable(runs: Sequence[Run]) -> int:
    """How many of the newest are to become one; 1 if they are well as they are."""
    oldest, *others = runs
    if sum(map(len, others)) >= len(oldest) or 2 * sum(run.gone_count for run in runs) >= len(oldest):
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
