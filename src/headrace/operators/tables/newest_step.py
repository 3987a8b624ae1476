"""The step of the newest rows of each key.

The state has all rows of a key or, with `keep`, only the newest ones. The newest row beyond that limit stays in the
state as a mark: changes of rows that are not newer than the mark are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.state.ids import Hashes, Ints, Mask, contains, distinct, ranges, segment_starts
from headrace.operators.state.step import Step, StepResult, StepTime
from headrace.operators.state.table import StateTable, column_of, ids_in, ints_of, with_column
from headrace.operators.tables.newest_order import SortTerm
from headrace.operators.tables.weighted import (
    ROW_HASH,
    WEIGHT,
    Tally,
    WeightedLift,
    changelog_schema,
    emitted,
    numbered,
    take_keys,
    weighted_schema,
)

MARK = "is_mark"

_BUCKET_HASH = "bucket_hash"


class NewestStep(Step):
    """The input has an id of key and row, the weight, `is_mark` (false), and the columns of the row."""

    def __init__(
        self,
        *,
        columns: Sequence[pa.Field],
        by: Sequence[str],
        order: Sequence[SortTerm],
        count: int,
        rank: str | None = None,
        keep: int | None,
    ) -> None:
        own = numbered("c", columns, key=by)
        self._columns = [each.name for each in own]
        positions = {each.name: number for number, each in enumerate(columns)}
        self._order = [(f"c{positions[term.name]}", term) for term in order]
        self._count = count
        self._has_rank = rank is not None
        self._keep = keep
        self.state_schema = self.input_schema = weighted_schema([pa.field(MARK, pa.bool_()), *own])
        ranks = [] if rank is None else [pa.field(rank, pa.int32())]
        self.output_schema = changelog_schema([*columns, *ranks])

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        ids = ids_in(rows)
        if len(ids) == 0:
            return self.unchanged()
        tally = Tally(take_keys(table, distinct(ids.real)), rows)
        order = self._newest_first(tally)
        group = tally.group[order]
        starts = segment_starts(group)
        was_mark = np.asarray(column_of(tally.rows, MARK))[order]
        weight_before, weight_after = tally.weight_before[order], tally.weight_after[order]
        # The state has no rows that are older than the mark.
        is_below = _running_sum(was_mark.astype(np.int64), starts) > 0
        weight_after[is_below] = 0
        before, after = np.maximum(weight_before, 0), np.maximum(weight_after, 0)
        output = self._output(tally.rows, order, before, after, starts)
        is_mark = was_mark
        if self._keep is not None:
            weight_after, is_mark = self._within_bound(after, weight_after, was_mark, starts)
        is_touched = (weight_before != weight_after) | (was_mark != is_mark)
        return self._result(tally, order, weight_after, is_mark, is_touched, output)

    def storable(self, changes: pa.Table) -> pa.Table:
        """Of added rows, those that can be stored, and the newest of the others for the mark. Equal rows are merged."""
        assert self._keep is not None
        tally = Tally(changes.slice(0, 0), changes)
        order = self._newest_first(tally)
        starts, weights = segment_starts(tally.group[order]), tally.weight_after[order]
        is_beyond = _running_sum(weights, starts) - weights >= self._keep
        chosen = order[_running_sum(is_beyond.astype(np.int64), starts) <= 1]
        return with_column(
            tally.rows.take(pa.array(chosen)).combine_chunks(), WEIGHT, pa.array(tally.weight_after[chosen])
        )

    def _newest_first(self, tally: Tally) -> Ints:
        """Positions sorted by key, and within a key by the order. Ties have a stable order."""
        keys = {"group": pa.array(tally.group)}
        sort_keys = [("group", "ascending", "at_end")]
        for name, term in self._order:
            column = column_of(tally.rows, name)
            direction = "descending" if term.is_descending else "ascending"
            nulls = "at_start" if term.nulls_first else "at_end"
            if pa.types.is_floating(column.type):
                # Arrow sorts NaN beside the nulls; in Spark it is the greatest value.
                keys[f"{name} is NaN"] = pc.is_nan(column)
                sort_keys.append((f"{name} is NaN", direction, nulls))
            keys[name] = column
            sort_keys.append((name, direction, nulls))
        keys["imaginary"] = pa.array(np.ascontiguousarray(tally.ids.imag))
        keys["row"] = pa.array(ints_of(tally.rows, ROW_HASH))
        sort_keys += [("imaginary", "descending", "at_end"), ("row", "descending", "at_end")]
        order: Ints = np.asarray(pc.sort_indices(pa.table(keys), sort_keys=sort_keys)).astype(np.int64)
        return order

    def _output(self, rows: pa.Table, order: Ints, before: Ints, after: Ints, starts: Ints) -> pa.Table:
        """The changes of the newest `count` rows; the weights before and after are in the order."""
        first_before, shown_before = self._shown(before, starts)
        first_after, shown_after = self._shown(after, starts)
        if self._has_rank:
            was, was_rank = _places(first_before, shown_before)
            now, now_rank = _places(first_after, shown_after)
            retracted, added = _differences(was, was_rank, now, now_rank)
            positions = np.concatenate([was[retracted], now[added]])
            ranks = [pa.array(np.concatenate([was_rank[retracted], now_rank[added]]), pa.int32())]
            weights = np.repeat(np.array([-1, 1]), [len(retracted), len(added)])
        else:
            changes = shown_after - shown_before
            positions, ranks = np.flatnonzero(changes), []
            weights = changes[positions]
        taken = pa.array(order[positions])
        columns = [column_of(rows, name).take(taken) for name in self._columns]
        return emitted(self.output_schema, [*columns, *ranks], weights)

    def _shown(self, weights: Ints, starts: Ints) -> tuple[Ints, Ints]:
        """How many rows come before each row, and how often it is among the newest `count` rows."""
        newer = _running_sum(weights, starts) - weights
        return newer, np.clip(self._count - newer, 0, weights)

    def _within_bound(
        self, after: Ints, weight_after: Ints, was_mark: Mask, starts: Ints
    ) -> tuple[Ints, Mask]:
        """The weights of the stored rows, and the marks: the newest row that is dropped, or else the old mark."""
        assert self._keep is not None
        newer = _running_sum(after, starts) - after
        is_dropped = (newer >= self._keep) & (after > 0)
        candidate = is_dropped | was_mark
        is_mark = candidate & (_running_sum(candidate.astype(np.int64), starts) == 1)
        is_below = _running_sum(is_mark.astype(np.int64), starts) > 0
        return np.where(is_below, 0, weight_after), is_mark

    def _result(
        self, tally: Tally, order: Ints, weights: Ints, is_mark: Mask, is_touched: Mask, output: pa.Table
    ) -> StepResult:
        ids = tally.ids[order]
        touched = distinct(ids[is_touched])
        is_kept = contains(touched, ids) & ((weights != 0) | is_mark)
        kept = with_column(tally.rows.take(pa.array(order[is_kept])), WEIGHT, pa.array(weights[is_kept]))
        kept = with_column(kept, MARK, pa.array(is_mark[is_kept]))
        deleted = touched[~contains(distinct(ids[is_kept]), touched)]
        return StepResult(rows=kept, deleted=deleted, output=output)


class NewestLift(WeightedLift):
    """The lift of rows that are never retracted, if the state is bounded: rows that it would not store are dropped."""

    def __init__(self, step: NewestStep) -> None:
        super().__init__(step.input_schema)
        self._step = step

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        lifted, keys = super().__call__(rows)
        chosen = self._step.storable(lifted.append_column(_BUCKET_HASH, pa.array(keys)))
        hashes = chosen.column(_BUCKET_HASH).to_numpy()
        return chosen.drop_columns([_BUCKET_HASH]), hashes


def _places(first: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Each position as often as its count, and the ranks."""
    ranks = ranges(first + 1, first + 1 + counts)
    return np.repeat(np.arange(len(counts)), counts), ranks


def _differences(was: Ints, was_rank: Ints, now: Ints, now_rank: Ints) -> tuple[Ints, Ints]:
    """The indexes of the pairs of row and rank that are only in the first, and only in the second."""
    ranks = max(was_rank.max(initial=0), now_rank.max(initial=0)) + 1
    pairs, new_pairs = was * ranks + was_rank, now * ranks + now_rank
    is_retracted = np.isin(pairs, new_pairs, assume_unique=True, invert=True)
    is_added = np.isin(new_pairs, pairs, assume_unique=True, invert=True)
    return np.flatnonzero(is_retracted), np.flatnonzero(is_added)


def _running_sum(numbers: Ints, starts: Ints) -> Ints:
    """The running sum of the numbers within each group."""
    total = np.cumsum(numbers)
    lengths = np.diff(np.append(starts, len(numbers)))
    before = np.concatenate(([0], total))[starts]
    found: Ints = total - np.repeat(before, lengths)
    return found
