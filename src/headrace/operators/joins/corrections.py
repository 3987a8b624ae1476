"""Emitted rows that a late change of the table may still correct, as rows of the state of `EnrichStep`.

A row is stored by key and time, with the entry that it was emitted with. So a change reads the rows of its key, and an
emitted row is written once, unless it is corrected.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.operators.state.ids import Ids, Ints, Mask, contains, distinct, ids_of, mixed
from headrace.operators.state.table import StateTable, column_of, hashes_of, ids_in, ints_of, with_column
from headrace.operators.tables.weighted import take_keys

VERSION = "seq"
"""The column of an emitted row with the mark of its entry."""

UNMATCHED = "deleted"
"""The column of an emitted row that is true if it has no entry."""

_NO_ENTRY = 0
_EMITTED = np.iinfo(np.int64).min
"""Distinguishes the ids of emitted rows from those of other rows of the same key."""


def emitted_ids(rows: pa.Table) -> Ids:
    """The ids of emitted rows. Those of a key have the same real part."""
    first, second = hashes_of(rows)
    return ids_of(mixed(first, np.full(len(first), _EMITTED)), mixed(second, ints_of(rows, "time")))


def emitted_rows(table: StateTable, changes: pa.Table) -> pa.Table:
    """The stored rows of the keys that changed."""
    found = take_keys(table, distinct(emitted_ids(changes).real))
    owners = distinct(ids_of(*hashes_of(changes)))
    return found.filter(pa.array(contains(owners, ids_of(*hashes_of(found))))).combine_chunks()


def with_entries(rows: pa.Table, versions: pa.Table, found: Ints, entry_columns: Sequence[str]) -> pa.Table:
    """The rows with the versions at these positions, -1 for none."""
    taken = versions.take(pa.array(found, mask=found < 0)).combine_chunks()
    for name in entry_columns:
        rows = with_column(rows, name, column_of(taken, name))
    marks = mixed(ints_of(versions, "time").view(np.uint64), ints_of(versions, "seq")).view(np.int64)
    rows = with_column(rows, VERSION, pa.array(np.append(marks, _NO_ENTRY)[found]))
    return with_column(rows, UNMATCHED, pa.array(found < 0))


class Corrections:
    """The emitted rows of the keys that changed in a step: as they were emitted, and as they should be."""

    def __init__(self, before: pa.Table, after: pa.Table) -> None:
        self._before = before
        self._after = after
        self._is_changed = _differs(before, after)

    @property
    def retracted(self) -> pa.Table:
        return self._before.filter(pa.array(self._is_changed)).combine_chunks()

    @property
    def added(self) -> pa.Table:
        return self._after.filter(pa.array(self._is_changed)).combine_chunks()

    def stored(self, table: StateTable, emitted: pa.Table, watermark_us: int) -> tuple[pa.Table, Ids]:
        """The new rows of the state after these rows were emitted, and the ids that they replace."""
        ids = distinct(np.concatenate([ids_in(emitted), ids_in(self.retracted)]))
        same = self._before.filter(pa.array(~self._is_changed))
        known = pa.concat_tables([same, self.added])
        known = known.filter(pa.array(contains(ids, ids_in(known))))
        others = table.take(ids[~contains(distinct(ids_in(known)), ids)])
        replaced = np.concatenate([ids_in(known), ids_in(others)])
        rows = pa.concat_tables([known, others, emitted]).combine_chunks()
        return rows.filter(pa.array(ints_of(rows, "due_us") > watermark_us)), replaced


def _differs(before: pa.Table, after: pa.Table) -> Mask:
    """Whether each row has another entry. The same entry may have arrived again as another change."""
    differs: Mask = ints_of(before, VERSION) != ints_of(after, VERSION)
    places = pa.array(np.flatnonzero(differs))
    was, now = (rows.drop_columns([VERSION]).take(places).to_pylist() for rows in (before, after))
    differs[differs] = [one != other for one, other in zip(was, now, strict=True)]
    return differs
