"""The state of a bucket: a few runs, of which a newer one's rows replace an older one's.

A step reads the rows of the ids that it touches, and hands back the rows that changed, which become the newest run.
So what is written grows with what was touched. Runs of like size are merged, as in a log-structured merge tree: there
are never more than the logarithm of the size, and a row is rewritten about as many times in its life.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.operators.state.ids import Ids, contains
from headrace.operators.state.run import GONE, ID, ID_TYPE, Run, ids_of_column, merge

NEVER = np.iinfo(np.int64).max
"""As a time: that does not come."""


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
        parts = [self.schema.empty_table()]
        for number, run in enumerate(self.runs):
            current = ~run.gone
            for newer in self.runs[number + 1 :]:
                current &= ~contains(newer.ids, run.ids)
            parts.append(run.rows.filter(pa.array(current)).drop_columns([GONE]))
        return pa.concat_tables(parts)

    def due(self, column: str, until: int) -> Ids:
        """The ids, each once, that have a row whose time in this column has come."""
        parts: list[Ids] = []
        for number, run in enumerate(self.runs):
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
        earliest = NEVER
        for run in self.runs:
            times = run.ints(column)
            times = times[(times > after) & ~run.gone]
            if len(times):
                earliest = min(earliest, int(times.min()))
        return earliest

    def with_changes(self, rows: pa.Table, gone: Ids) -> StateTable:
        """`rows` are all there are of their ids from now on; the ids that are gone have none."""
        assert rows.schema.equals(self.schema), (rows.schema, self.schema)
        if rows.num_rows == 0 and len(gone) == 0:
            return self
        return StateTable(self.schema, merge_like_sizes([*self.runs, Run.of(rows, gone)]))

    @property
    def row_count_max(self) -> int:
        """At least as many as there are rows."""
        return sum(len(run) for run in self.runs)


def merge_like_sizes(runs: Sequence[Run]) -> list[Run]:
    """Merge from the newest on, as long as the next one is not bigger than what came together.

    All of them are merged when much of the oldest is gone: else a bucket in which nothing is left, and to which
    nothing more comes, would keep what it had for good.
    """
    kept = list(runs)
    much_is_gone = 2 * sum(run.gone_count for run in kept) >= len(kept[0])
    while len(kept) > 1 and (much_is_gone or len(kept[-2]) <= len(kept[-1])):
        newer, older = kept.pop(), kept.pop()
        kept.append(merge(older, newer, is_oldest=not kept))
    if len(kept) == 1 and bool(kept[0].gone.any()):
        kept[0] = merge(Run(kept[0].rows.slice(0, 0)), kept[0], is_oldest=True)
    return [run for run in kept if len(run)]


def ids_in(rows: pa.Table) -> Ids:
    return ids_of_column(rows.column(ID))
