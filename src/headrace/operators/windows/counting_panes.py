"""The step of windows of so many rows: rows are kept one by one until nothing can come before them any more.

The state of a key has two kinds of rows. Those of the input, sorted by time; what is too old to be moved by a late row
and not yet in a full window is one of them, with the folds of all. And one for each window of which something was
said, or is to be said: the windows are numbered from the first row that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.folds import Columns, Fold
from headrace.operators.late_rows import UTC_TIME
from headrace.operators.state.ids import Hashes, Ids, Ints, Mask, contains, ids_of, segment_starts
from headrace.operators.state.run import ID, NEVER, ids_column
from headrace.operators.state.step import END_US, StepResult, StepTime
from headrace.operators.state.table import StateTable, ids_in, state_schema
from headrace.operators.triggers import Pane
from headrace.operators.windows.lifting import HASHES, TIME, key_columns, lift_all
from headrace.operators.windows.panes import ORIGINALS, PaneRules, PaneStep, column_of, ints_of

TIE = "tie"
"""The column that orders rows of one time."""

NO_WINDOW = -1
"""As the number of a window, in the state: this is a row of the input."""

_OF_INPUT = {
    "due_us": NEVER,
    "wake_us": NEVER,
    "window": NO_WINDOW,
    "changes": 0,
    "is_done": False,
    "revision": 0,
}
_PANES = np.array(tuple(Pane), dtype=object)


class CountLift:
    """Each row by itself: which window it is in, nobody knows before the others have come."""

    def __init__(self, folds: Sequence[Fold], schema: pa.Schema) -> None:
        self._folds = folds
        self._schema = schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        times_us = np.asarray(rows.column(TIME))
        first, second = (np.asarray(rows.column(name)).view(np.uint64) for name in HASHES)
        columns = [
            ids_column(ids_of(first, second)),
            *key_columns(rows),
            pa.array(times_us),
            pa.array(times_us),
            pa.array(np.ones(len(times_us), dtype=np.int64)),
            *lift_all(self._folds, rows, times_us),
            column_of(rows, TIE),
        ]
        return pa.table(columns, schema=self._schema), first


class CountingStep:
    """`start` and `end` of a row of the input are its time. `says_rest`: at the end, windows that are not full too."""

    version = 1
    due_column = "due_us"

    def __init__(
        self,
        *,
        keys: Sequence[pa.Field],
        folds: Sequence[tuple[str, Fold]],
        rules: PaneRules,
        window_rows: int,
        says_rest: bool = False,
    ) -> None:
        self.rules = rules
        self.window_rows = window_rows
        self.says_rest = says_rest
        self.folds = [fold for _, fold in folds]
        self._like = PaneStep(keys=keys, folds=folds, rules=rules)
        self.keys = self._like.keys
        self.output_schema = self._like.output_schema
        self.input_schema = self._like.input_schema.append(pa.field(TIE, pa.int64()))
        self.row_names = [name for name in self.input_schema.names if name != ORIGINALS]
        self.said_names = ["start_out", "end_out", "pane_out", *(f"out{n}" for n in range(len(folds)))]
        said_types = [pa.int64(), pa.int64(), pa.int8(), *(fold.result_type for fold in self.folds)]
        self.state_schema = state_schema(
            [
                *map(self.input_schema.field, self.row_names[1:]),
                pa.field("due_us", pa.int64()),
                pa.field("wake_us", pa.int64()),
                pa.field("window", pa.int64()),
                pa.field("changes", pa.int64()),  # rows that moved what is in it, since it was last published
                pa.field("is_done", pa.bool_()),  # its pane on time was published
                pa.field("revision", pa.int32()),  # how many panes were published
                *map(pa.field, self.said_names, said_types),
            ]
        )

    @property
    def has_early(self) -> bool:
        return self.rules.early_rows is not None or self.rules.early_us is not None

    @property
    def wake_column(self) -> str | None:
        return "wake_us" if self.rules.early_us or self.rules.late_us else None

    def migrate(self, rows: pa.Table, version: int) -> pa.Table:
        raise AssertionError(f"there never was a version {version}")

    def is_settled(self, ends_us: Ints, time: StepTime) -> Mask:
        """Nothing comes any more that would be at or before these times."""
        settled: Mask = ends_us + (1 + self.rules.within_us) <= time.watermark_us
        return settled

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        ends_us = ints_of(rows, "end")
        too_late = self.is_settled(ends_us, time)
        is_behind = ends_us + 1 <= time.watermark_us
        counts: dict[str, Any] = {
            "rows_in": rows.num_rows,
            "corrected_rows": int((is_behind & ~too_late).sum()),
            "late_rows": int(too_late.sum()),
        }
        if too_late.any():
            if self.rules.keeps_late:
                counts["late"] = self._like.late_of(rows.filter(pa.array(too_late)), time)
            rows = rows.filter(pa.array(~too_late))
        ids = np.unique(np.concatenate([ids_in(rows), *self._due(table, time)]))
        before = table.take(ids)
        if before.num_rows + rows.num_rows == 0:
            nothing, silence = self.state_schema.empty_table(), self.output_schema.empty_table()
            return StepResult(rows=nothing, deleted=ids[:0], output=silence, **counts)
        windows = CountWindows(self, before, rows, time)
        kept = windows.kept()
        gone = np.unique(ids_in(before))
        gone = gone[~contains(np.unique(ids_in(kept)), gone)]
        return StepResult(rows=kept, deleted=gone, output=windows.output(), **counts)

    def _due(self, table: StateTable, time: StepTime) -> list[Ids]:
        due = [table.due("due_us", time.watermark_us)]
        if self.wake_column:
            due.append(table.due("wake_us", time.now_us))
        return due


class CountWindows:
    """The windows of all keys that are looked at. Arrays with one value each are named in the plural for rows of the
    input (`row_windows`), and plainly for windows (`rows`, `start`)."""

    def __init__(self, step: CountingStep, before: pa.Table, rows: pa.Table, time: StepTime) -> None:
        self._step = step
        self._time = time
        is_said = ints_of(before, "window") != NO_WINDOW
        said = before.filter(pa.array(is_said)).combine_chunks()
        kept = before.filter(pa.array(~is_said)).select(step.row_names)
        together = pa.concat_tables([kept, rows.select(step.row_names)]).combine_chunks()
        order = np.lexsort((ints_of(together, TIE), ints_of(together, "end"), ids_in(together)))
        self._rows = together.take(pa.array(order)).combine_chunks()
        self._came = order >= kept.num_rows
        self._place()
        self._find_said(said)
        self._decide()

    def _place(self) -> None:
        """Which window each row is in: as many rows of its key are before it."""
        ids, counts = ids_in(self._rows), ints_of(self._rows, "rows")
        first = segment_starts(ids)
        self._row_keys = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(ids))))
        self._key_ids = ids[first]
        before = _before_in_group(counts, first, self._row_keys)
        self._row_windows = before // self._step.window_rows
        is_first = np.ones(len(ids), dtype=np.bool_)
        is_first[1:] = (np.diff(self._row_keys) != 0) | (np.diff(self._row_windows) != 0)
        self._starts = np.flatnonzero(is_first)
        self._lasts = np.append(self._starts[1:], len(ids)) - 1
        self.key = self._row_keys[self._starts]
        self.window = self._row_windows[self._starts]
        self.start = ints_of(self._rows, "start")[self._starts]
        self.end = ints_of(self._rows, "end")[self._lasts]
        self.rows = np.add.reduceat(counts, self._starts)
        came = self._came.astype(np.int64)
        came_before = _before_in_group(came, first, self._row_keys)
        self.came = (came_before + came)[self._lasts]  # into this window, or moved a row into it

    def _find_said(self, said: pa.Table) -> None:
        """What is known of each window: the position of its row in `said`, or none."""
        self._said = said
        scale = int(max(self.window.max(initial=0), ints_of(said, "window").max(initial=0))) + 1
        said_keys = np.searchsorted(self._key_ids, ids_in(said))
        places = said_keys * scale + ints_of(said, "window")
        order = np.argsort(places)
        wanted = self.key * scale + self.window
        if len(order) == 0:
            self._said_at = np.full(len(wanted), -1)
            return
        found = np.minimum(np.searchsorted(places[order], wanted), len(order) - 1)
        self._said_at = np.where(places[order][found] == wanted, order[found], -1)

    def _of_said(self, name: str, otherwise: int) -> Ints:
        if self._said.num_rows == 0:
            return np.full(len(self._said_at), otherwise, dtype=np.int64)
        return np.where(self._said_at < 0, otherwise, ints_of(self._said, name)[self._said_at])

    def _decide(self) -> None:
        """Which windows are published, and as what."""
        step, rules, now_us = self._step, self._step.rules, self._time.now_us
        self.is_full = self.rows == step.window_rows
        self.is_over = self.is_full & (self.end + 1 <= self._time.watermark_us)
        self.is_expired = self.is_full & step.is_settled(self.end, self._time)
        self.on_time = self.is_over & (self._of_said("is_done", 0) == 0)
        self.revision = self._of_said("revision", 0)
        self.changes = np.minimum(self._of_said("changes", 0) + self.came, self.rows)
        changed = self.changes > 0
        interval_us = np.where(self.is_over, rules.late_us, rules.early_us or NEVER)
        with np.errstate(over="ignore"):
            woken_us = np.where(interval_us == NEVER, NEVER, now_us + interval_us)
        self.wake_us = np.where(changed, np.minimum(woken_us, self._of_said("wake_us", NEVER)), NEVER)
        publish = self.on_time | (changed & ((self.wake_us <= now_us) | self.is_expired))
        if rules.early_rows is not None:
            publish |= ~self.is_over & (self.changes >= rules.early_rows)
        if step.says_rest and self._time.watermark_us >= END_US:
            publish |= ~self.is_full & (changed | (self.revision == 0))
        self.publish: Mask = publish
        self.pane = np.where(self.is_over, np.where(self.on_time, 1, 2), 0).astype(np.int8)
        self.results = [
            fold.result(fold.merge(columns, self._starts))
            for fold, columns in zip(step.folds, self._fold_columns(self._rows), strict=True)
        ]

    def _fold_columns(self, rows: pa.Table) -> list[Columns]:
        return [
            [column_of(rows, f"f{number}_{part}") for part in range(len(fold.state))]
            for number, fold in enumerate(self._step.folds)
        ]

    def output(self) -> pa.Table:
        publish = pa.array(self.publish)
        asserted = self._say(
            self._keys_of(self._rows, self._starts[self.publish]),
            [
                pa.array(self.start).filter(publish),
                pa.array(self.end).filter(publish),
                pa.array(self.pane).filter(publish),
                *(each.filter(publish) for each in self.results),
            ],
            self.revision[self.publish],
            "+",
        )
        retracted = self.publish & (self.revision > 0)
        if not retracted.any():
            return asserted
        at = self._said_at[retracted]
        taken_back = self._say(
            self._keys_of(self._said, at),
            [column_of(self._said, name).take(pa.array(at)) for name in self._step.said_names],
            self.revision[retracted] - 1,
            "-",
        )
        return pa.concat_tables([taken_back, asserted])

    def _say(self, keys: Columns, said: Columns, revision: Ints, op: str) -> pa.Table:
        """`said` is as in the state: start, end, pane, results."""
        start, end, pane, *results = said
        count, watermark_us = len(start), self._time.watermark_us
        has_watermark = -END_US < watermark_us < END_US
        columns = [
            *keys,
            start.cast(UTC_TIME),
            end.cast(UTC_TIME),
            *results,
            pa.array(_PANES[np.asarray(pane)], pa.string()),
            pa.array(revision.astype(np.int32)),
            pa.repeat(pa.scalar(op), count),
            pa.repeat(pa.scalar(watermark_us if has_watermark else None, pa.int64()), count).cast(UTC_TIME),
        ]
        return pa.table(columns, schema=self._step.output_schema)

    def _keys_of(self, table: pa.Table, positions: Ints) -> Columns:
        picked = pa.array(positions)
        return [column_of(table, name).take(picked) for name in self._step.keys]

    def kept(self) -> pa.Table:
        """What lives on: windows that are full and can't change any more are gone, with their rows."""
        return pa.concat_tables([self._kept_rows(), self._kept_windows()])

    def _kept_rows(self) -> pa.Table:
        stays = np.flatnonzero(~np.repeat(self.is_expired, self._lasts - self._starts + 1))
        rows = self._rows.take(pa.array(stays)).combine_chunks()
        keys, ends = self._row_keys[stays], ints_of(rows, "end")
        # Rows that can't be moved any more are only in windows that are not full: they become one.
        settled = self._step.is_settled(ends, self._time)
        is_first = np.ones(len(stays), dtype=np.bool_)
        is_first[1:] = ~(settled[1:] & settled[:-1] & (keys[1:] == keys[:-1]))
        first = np.flatnonzero(is_first)
        last = np.append(first[1:], len(stays))[: len(first)] - 1
        due = np.full(len(self._row_keys), NEVER)
        due[self._lasts] = self._due()
        counts = ints_of(rows, "rows")
        merged = {
            ID: ids_column(ids_in(rows)[first]),
            **{
                name: column_of(rows, name).take(pa.array(first)) for name in [*self._step.keys, "start", TIE]
            },
            "end": pa.array(ends[last]),
            "rows": pa.array(np.add.reduceat(counts, first) if len(first) else counts),
            "due_us": pa.array(due[stays][last]),
        }
        for number, fold in enumerate(self._step.folds):
            for part, column in enumerate(fold.merge(self._fold_columns(rows)[number], first)):
                merged[f"f{number}_{part}"] = column
        return self._as_state(merged, len(first))

    def _due(self) -> Ints:
        """When a window must be looked at again though nothing came: it is over then, or can't change any more."""
        full_us = np.where(self.is_over, self.end + 1 + self._step.rules.within_us, self.end + 1)
        return np.where(self.is_full, full_us, END_US if self._step.says_rest else NEVER)

    def _kept_windows(self) -> pa.Table:
        revision = self.revision + self.publish
        changes = np.where(self.publish, 0, self.changes)
        is_known = (revision > 0) | (self._step.has_early & (changes > 0))
        stays = np.flatnonzero(~self.is_expired & is_known)
        expired = np.bincount(self.key, weights=self.is_expired).astype(np.int64)
        now = [pa.array(self.start), pa.array(self.end), pa.array(self.pane), *self.results]
        before = self._said.take(pa.array(self._said_at, mask=self._said_at < 0)).combine_chunks()
        picked, published = pa.array(stays), pa.array(self.publish[stays])
        said = {
            name: pc.if_else(published, one.take(picked), column_of(before, name).take(picked))
            for name, one in zip(self._step.said_names, now, strict=True)
        }
        columns = {
            ID: ids_column(self._key_ids[self.key[stays]]),
            **dict(zip(self._step.keys, self._keys_of(self._rows, self._starts[stays]), strict=True)),
            "start": pa.array(self.start[stays]),
            "end": pa.array(self.end[stays]),
            "rows": pa.array(self.rows[stays]),
            "wake_us": pa.array(np.where(self.publish, NEVER, self.wake_us)[stays]),
            "window": pa.array((self.window - expired[self.key])[stays]),
            "changes": pa.array(changes[stays]),
            "is_done": pa.array(self.is_over[stays]),
            "revision": pa.array(revision[stays].astype(np.int32)),
            **said,
        }
        return self._as_state(columns, len(stays))

    def _as_state(self, columns: dict[str, pa.Array], count: int) -> pa.Table:
        """Those that are not given are as in a row of the input."""
        arrays = []
        for field in self._step.state_schema:
            if field.name in columns:
                arrays.append(columns[field.name])
            elif field.name in _OF_INPUT:
                arrays.append(pa.repeat(pa.scalar(_OF_INPUT[field.name], field.type), count))
            else:
                arrays.append(pa.nulls(count, field.type))
        return pa.table(arrays, schema=self._step.state_schema)


def _before_in_group(counts: Ints, first: Ints, groups: Ints) -> Ints:
    """For each the sum of those before it in its group; `first` is where each group begins."""
    before = np.cumsum(counts) - counts
    return before - before[first][groups]
