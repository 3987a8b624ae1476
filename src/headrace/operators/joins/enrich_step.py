"""The step of enrichment: the versions of a table's entries, and the rows that wait for one.

The input has changes of the table and rows to enrich. The state of a key has three parts: the versions that a row may
still need; rows that wait until the watermark has passed their time, by key and time; and rows that found no entry then
and wait for one to arrive, by key. So a waiting row is written once, whatever happens to its key, and versions are
written when they change, not when they are read. With corrections, emitted rows are stored too (`corrections.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headrace.operators.folds import Columns
from headrace.operators.joins.corrections import (
    UNMATCHED,
    Corrections,
    emitted_ids,
    emitted_rows,
    with_entries,
)
from headrace.operators.state.ids import Ids, Ints, contains, distinct, ids_of, mixed
from headrace.operators.state.run import COLUMN, LABEL, NEVER, ids_column
from headrace.operators.state.step import BEGINNING_US, Step, StepResult, StepTime
from headrace.operators.state.table import (
    HASHES,
    StateTable,
    column_of,
    hashes_of,
    ids_in,
    ints_of,
    state_schema,
    with_column,
)
from headrace.operators.tables.weighted import ADDED, OP, RETRACTED

ALWAYS_US = -(2**61)
"""The time from which an entry without a time is valid: before all times, with room to subtract durations."""


class Side(IntEnum):
    """The kind of an input row."""

    ROW = 0
    CHANGE = 1
    UNMATCHABLE = 2
    """A row without a key, or without a time if it needs one: it matches nothing."""


class Kept(IntEnum):
    """The kind of a state row."""

    VERSION = 0
    EARLY = 1
    """A row that waits for the watermark to pass its time."""
    WITHOUT_ENTRY = 2
    """A row that found no entry and waits for one to arrive."""
    EMITTED = 3
    """A row that a late change may correct."""


class EnrichRules(Struct, frozen=True, kw_only=True):
    is_latest: bool = False
    """Whether rows get the newest entry, instead of the entry that was valid at their time."""
    wait_us: int | None = None
    """How long after its time a row without an entry waits."""
    keep_us: int = 0
    """How long after the watermark versions are stored and rows are accepted."""
    drops_unmatched: bool = False
    corrects: bool = False
    """Whether rows are stored for `keep_us` after they were emitted, and corrected if their entry changes."""


class EnrichStep(Step):
    """The input has `h1`, `h2` (the hashes of the key), `side`, `time`, `seq` (the order of changes with equal times),
    `deleted`, the keys `k0`…, the other columns of the rows `l0`…, and the columns of the table `r0`…
    """

    def __init__(
        self,
        *,
        rules: EnrichRules,
        keys: Sequence[pa.Field],
        columns: Sequence[pa.Field],
        table_columns: Sequence[pa.Field],
    ) -> None:
        self.rules = rules
        self.due_column = None if rules.is_latest and rules.wait_us is None else "due_us"
        self.row_columns = [*(f"k{n}" for n in range(len(keys))), *(f"l{n}" for n in range(len(columns)))]
        self.entry_columns = [f"r{n}" for n in range(len(table_columns))]
        fields = [*keys, *columns, *table_columns]
        payload = [
            pa.field(name, each.type, metadata={COLUMN if name[0] == "k" else LABEL: each.name.encode()})
            for name, each in zip([*self.row_columns, *self.entry_columns], fields, strict=True)
        ]
        numbers = [pa.field(name, pa.int64()) for name in (*HASHES, "time", "seq")]
        deleted = pa.field("deleted", pa.bool_())
        self.input_schema = pa.schema([*numbers, pa.field("side", pa.int8()), deleted, *payload])
        kept = [pa.field("due_us", pa.int64()), pa.field("kept", pa.int8()), deleted]
        self.state_schema = state_schema([*numbers, *kept, *payload])
        op = [pa.field(OP, pa.string())] if rules.corrects else []
        self.output_schema = pa.schema([*(pa.field(each.name, each.type) for each in fields), *op])

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        side = ints_of(rows, "side")
        lookups = rows.filter(pa.array(side == Side.ROW))
        late = ints_of(lookups, "time") < self.horizon_us(time.late_us)
        if self.rules.is_latest:
            late[:] = False
        matches = Matches(
            self,
            table,
            changes=self._as_state(rows.filter(pa.array(side == Side.CHANGE)), Kept.VERSION),
            lookups=self._as_state(lookups.filter(pa.array(~late)), Kept.EARLY),
            time=time,
        )
        output = [matches.output(), self.without_match(rows.filter(pa.array(side == Side.UNMATCHABLE)))]
        return StepResult(
            rows=matches.kept,
            deleted=matches.deleted,
            output=pa.concat_tables(output),
            late_rows=int(late.sum()),
        )

    def horizon_us(self, watermark_us: int) -> int:
        """The time from which versions are stored and rows are accepted."""
        return max(watermark_us - self.rules.keep_us, BEGINNING_US)

    def without_match(self, rows: pa.Table) -> pa.Table:
        if self.rules.drops_unmatched:
            rows = rows.slice(0, 0)
        nulls = [pa.nulls(rows.num_rows, self.input_schema.field(name).type) for name in self.entry_columns]
        return self.output_rows(rows, nulls)

    def output_rows(self, rows: pa.Table, entries: Columns, op: str = ADDED) -> pa.Table:
        own = [column_of(rows, name) for name in self.row_columns]
        ops = [pa.repeat(op, rows.num_rows)] if self.rules.corrects else []
        return pa.table([*own, *entries, *ops], schema=self.output_schema)

    def _as_state(self, rows: pa.Table, kept: Kept) -> pa.Table:
        """Input rows in the columns of the state."""
        first, second = hashes_of(rows)
        times_us = ints_of(rows, "time")
        if kept is Kept.EARLY:
            first, second = mixed(first, times_us), mixed(second, times_us)
        return self.state_rows(rows, kept, ids_of(first, second), times_us + 1)

    def state_rows(self, rows: pa.Table, kept: Kept, ids: Ids, due_us: Ints) -> pa.Table:
        columns = {name: rows.column(name) for name in rows.column_names}
        columns |= {
            "id": ids_column(ids),
            "due_us": pa.array(due_us),
            "kept": pa.array(np.full(rows.num_rows, kept, dtype=np.int8)),
        }
        return pa.table([columns[each.name] for each in self.state_schema], schema=self.state_schema)


class Matches:
    """One step of a bucket: the rows that are emitted with their entries, and the new state."""

    def __init__(
        self, step: EnrichStep, table: StateTable, *, changes: pa.Table, lookups: pa.Table, time: StepTime
    ) -> None:
        self._step = step
        self._rules = step.rules
        self._table = table
        self._watermark_us = time.watermark_us
        self._horizon_us = step.horizon_us(time.watermark_us)
        is_early = ints_of(lookups, "time") >= time.watermark_us
        if self._rules.is_latest:
            is_early[:] = False
        early, ready = lookups.filter(pa.array(is_early)), lookups.filter(pa.array(~is_early))
        due = self._due()
        self._expired = ids_in(_only(due, Kept.EMITTED))
        due = due.filter(pa.array(ints_of(due, "kept") != Kept.EMITTED))
        no_more_early = _only(due, Kept.EARLY)
        self._changed = distinct(np.concatenate([owners_of(changes), owners_of(_only(due, Kept.VERSION))]))
        touched = pa.concat_tables([each.select(HASHES) for each in (changes, ready, due)])
        self._owners = distinct(owners_of(touched))
        self._versions_before = table.take(self._owners)
        self._without_before = self._without_entry(touched)
        self._versions = self._merged(changes)
        self._rows = pa.concat_tables([self._without_before, ready, no_more_early]).combine_chunks()
        self._match()
        self._corrections = self._corrected(changes) if self._rules.corrects else None
        self._keep(early, ids_in(no_more_early))

    def _due(self) -> pa.Table:
        if self._step.due_column is None:
            return self._step.state_schema.empty_table()
        return self._table.take(self._table.due("due_us", self._watermark_us))

    def _without_entry(self, touched: pa.Table) -> pa.Table:
        """The rows of these keys that wait for an entry."""
        if self._rules.wait_us is None:
            return self._step.state_schema.empty_table()
        return self._table.take(distinct(_without_entry_ids(touched)))

    def _merged(self, changes: pa.Table) -> pa.Table:
        """One version per owner and time, or one per owner if rows get the newest entry."""
        together = pa.concat_tables([self._versions_before, changes]).combine_chunks()
        owners = self._numbers(together)
        times_us = ints_of(together, "time")
        order = np.lexsort((ints_of(together, "seq"), times_us, owners))
        owners, times_us = owners[order], times_us[order]
        is_last = np.ones(len(order), dtype=np.bool_)
        is_last[:-1] = owners[1:] != owners[:-1]
        if not self._rules.is_latest:
            is_last[:-1] |= times_us[1:] != times_us[:-1]
        return together.take(pa.array(order[is_last])).combine_chunks()

    def _numbers(self, rows: pa.Table) -> Ints:
        """The number of the owner of each row."""
        return np.searchsorted(self._owners, owners_of(rows))

    def _found_for(self, rows: pa.Table) -> Ints:
        """The positions of the versions of these rows, -1 for none."""
        times_us = ints_of(rows, "time")
        lookup_us = np.full(len(times_us), NEVER) if self._rules.is_latest else times_us
        found = last_until(
            self._numbers(self._versions),
            ints_of(self._versions, "time"),
            self._numbers(rows),
            lookup_us,
        )
        deleted = np.append(np.asarray(column_of(self._versions, "deleted")), True)
        return np.where(deleted[found], -1, found)

    def _corrected(self, changes: pa.Table) -> Corrections:
        before = emitted_rows(self._table, changes)
        return Corrections(before, self._with_entries(before, self._found_for(before)))

    def _with_entries(self, rows: pa.Table, found: Ints) -> pa.Table:
        return with_entries(rows, self._versions, found, self._step.entry_columns)

    def _match(self) -> None:
        times_us = ints_of(self._rows, "time")
        self._found = self._found_for(self._rows)
        self._is_done = np.ones(len(times_us), dtype=np.bool_)
        if self._rules.wait_us is not None:
            self._is_done = (self._found >= 0) | (times_us + self._rules.wait_us < self._watermark_us)

    def output(self) -> pa.Table:
        is_emitted = self._is_done & (self._found >= 0) if self._rules.drops_unmatched else self._is_done
        found = self._found[is_emitted]
        versions = self._versions.take(pa.array(found, mask=found < 0)).combine_chunks()
        entries = [column_of(versions, name) for name in self._step.entry_columns]
        rows = self._step.output_rows(self._rows.filter(pa.array(is_emitted)).combine_chunks(), entries)
        if self._corrections is None:
            return rows
        retracted = self._correction(self._corrections.retracted, RETRACTED)
        return pa.concat_tables([retracted, rows, self._correction(self._corrections.added, ADDED)])

    def _correction(self, rows: pa.Table, op: str) -> pa.Table:
        if self._rules.drops_unmatched:
            rows = rows.filter(pc.invert(column_of(rows, UNMATCHED))).combine_chunks()
        entries = [column_of(rows, name) for name in self._step.entry_columns]
        return self._step.output_rows(rows, entries, op)

    def _keep(self, early: pa.Table, no_more_early: Ids) -> None:
        without, moved = self._kept_without_entry()
        with_early = self._table.take(distinct(ids_in(early)))
        emitted, replaced = self._kept_emitted()
        kept = [self._kept_versions(), with_early, early, without, emitted]
        self.kept = pa.concat_tables(kept).combine_chunks()
        versions, waiting = ids_in(self._versions_before), ids_in(self._without_before)
        before = np.concatenate(
            [
                versions[contains(self._changed, versions)],
                waiting[contains(moved, waiting)],
                no_more_early,
                self._expired,
                replaced,
            ]
        )
        self.deleted = distinct(before[~contains(distinct(ids_in(self.kept)), before)])

    def _kept_versions(self) -> pa.Table:
        """The versions that rows may still need, of the keys whose versions change in this step."""
        times_us, owners = ints_of(self._versions, "time"), self._numbers(self._versions)
        deleted = np.asarray(column_of(self._versions, "deleted"))
        due_us = np.full(len(times_us), NEVER)
        if self._rules.is_latest:
            is_kept = ~deleted
        else:
            keep_us = self._rules.keep_us
            next_us = np.full(len(times_us), NEVER)
            next_us[:-1] = np.where(owners[1:] == owners[:-1], times_us[1:], NEVER)
            # A deletion is not stored any more when no row may need an earlier version.
            ends_us = np.where(deleted, times_us, next_us)
            is_kept = ends_us > self._horizon_us
            due_us = np.where(ends_us == NEVER, NEVER, np.minimum(ends_us, NEVER - keep_us) + keep_us)
        is_kept &= contains(self._changed, self._owners[owners])
        return with_column(self._versions, "due_us", pa.array(due_us)).filter(pa.array(is_kept))

    def _kept_emitted(self) -> tuple[pa.Table, Ids]:
        """The rows that a change may still correct, of the ids that change in this step, and the ids they replace."""
        if self._corrections is None:
            return self._step.state_schema.empty_table(), np.empty(0, dtype=np.complex128)
        done = self._with_entries(self._rows, self._found).filter(pa.array(self._is_done)).combine_chunks()
        due_us = ints_of(done, "time") + self._rules.keep_us + 1
        emitted = self._step.state_rows(done, Kept.EMITTED, emitted_ids(done), due_us)
        return self._corrections.stored(self._table, emitted, self._watermark_us)

    def _kept_without_entry(self) -> tuple[pa.Table, Ids]:
        """The rows that still wait, of the keys whose waiting rows changed, and the ids of these keys."""
        ids = _without_entry_ids(self._rows)
        if self._rules.wait_us is None:
            return self._step.state_schema.empty_table(), ids[:0]
        is_new = np.arange(len(ids)) >= self._without_before.num_rows
        moved = distinct(ids[is_new != self._is_done])
        is_kept = ~self._is_done & contains(moved, ids)
        due_us = ints_of(self._rows, "time") + self._rules.wait_us + 1
        kept = self._step.state_rows(self._rows, Kept.WITHOUT_ENTRY, ids, due_us)
        return kept.filter(pa.array(is_kept)), moved


def last_until(owners: Ints, times_us: Ints, lookups: Ints, until_us: Ints) -> Ints:
    """The position of the owner's last entry at or before each time, or -1."""
    owner, time = np.concatenate([owners, lookups]), np.concatenate([times_us, until_us])
    is_lookup = np.arange(len(owner)) >= len(owners)
    order = np.lexsort((is_lookup, time, owner))
    places = np.where(is_lookup[order], -1, np.arange(len(order)))
    last = np.maximum.accumulate(places) if len(places) else places
    is_own = (last >= 0) & (owner[order][last] == owner[order])
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.where(is_own, order[last], -1)
    return found[len(owners) :]


def owners_of(rows: pa.Table) -> Ids:
    """The ids of the keys of rows, which are the ids of versions in the state."""
    return ids_of(*hashes_of(rows))


def _without_entry_ids(rows: pa.Table) -> Ids:
    """The ids in the state of rows that wait for an entry, by key."""
    never = np.full(rows.num_rows, NEVER)
    first, second = hashes_of(rows)
    return ids_of(mixed(first, never), mixed(second, never))


def _only(rows: pa.Table, kept: Kept) -> pa.Table:
    return rows.filter(pa.array(ints_of(rows, "kept") == kept))
