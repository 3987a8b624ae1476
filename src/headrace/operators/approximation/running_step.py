"""The steps of aggregates over all time: one row of state per key, merged with the new rows of each batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headrace.operators.folds import Columns, ranks
from headrace.operators.ordering import differ
from headrace.operators.sketches import TOP_RESULTS_MAX, TopFold
from headrace.operators.state.ids import Ints, Mask, distinct
from headrace.operators.state.step import StepResult, StepTime
from headrace.operators.state.table import StateTable, column_of, ids_in
from headrace.operators.tables.group_step import TotalsStep, group_changes, merge_totals
from headrace.operators.tables.weighted import changelog_schema, emitted

RANK = "rank"
COUNT = "count"


class RunningStep(TotalsStep):
    """The input is that of totals. Rows are never retracted, so any fold will do."""

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        ids = distinct(ids_in(rows))
        if len(ids) == 0:
            return self.unchanged()
        before = table.take(ids)
        now = merge_totals(pa.concat_tables([before, rows]).combine_chunks(), self.folds, self.totals)
        order = np.argsort(ids_in(before))
        existed = np.isin(ids, ids_in(before))
        places = np.zeros(len(ids), dtype=np.int64)
        places[existed] = order
        old = [each.take(pa.array(places, mask=~existed)) for each in self._results(before)]
        keys = [column_of(now, name) for name in self.keys]
        output = self._output(keys, (existed, old), self._results(now))
        return StepResult(rows=now, deleted=np.empty(0, dtype=np.complex128), output=output)

    def _output(self, keys: Columns, was: tuple[Mask, Columns], now: Columns) -> pa.Table:
        is_shown = np.ones(len(was[0]), dtype=np.bool_)
        return group_changes(self.output_schema, keys, was, (is_shown, now))


class TopStep(RunningStep):
    """The step of the most frequent values. Its output has the keys, the rank, the value and the count, and of a key
    only the ranks that changed."""

    def __init__(self, *, keys: Sequence[pa.Field], value: str, fold: TopFold) -> None:
        super().__init__(keys=keys, folds=[(value, fold)])
        values, counts = fold.result_type.value_type
        self.output_schema = changelog_schema(
            [*keys, pa.field(RANK, pa.int32()), pa.field(value, values.type), pa.field(COUNT, counts.type)]
        )

    def _output(self, keys: Columns, was: tuple[Mask, Columns], now: Columns) -> pa.Table:
        old, new = (_ranked(each[0]) for each in (was[1], now))
        _, in_old, in_new = np.intersect1d(old.places, new.places, assume_unique=True, return_indices=True)
        is_same = ~differ(old.elements.take(pa.array(in_old)), new.elements.take(pa.array(in_new)))
        retracted = np.delete(np.arange(len(old.places)), in_old[is_same])
        added = np.delete(np.arange(len(new.places)), in_new[is_same])
        groups = pa.array(np.concatenate([old.groups[retracted], new.groups[added]]))
        both = pa.concat_arrays(
            [old.elements.take(pa.array(retracted)), new.elements.take(pa.array(added))]
        ).flatten()
        shown = np.concatenate([old.ranks[retracted], new.ranks[added]])
        columns = [*(each.take(groups) for each in keys), pa.array(shown, pa.int32()), *both]
        return emitted(
            self.output_schema, columns, np.repeat(np.array([-1, 1]), [len(retracted), len(added)])
        )


class _Ranked(Struct, frozen=True):
    """The elements of lists with the number of their list and their rank in it, from 1."""

    groups: Ints
    ranks: Ints
    elements: pa.Array

    @property
    def places(self) -> Ints:
        return self.groups * (TOP_RESULTS_MAX + 1) + self.ranks


def _ranked(column: pa.Array) -> _Ranked:
    lengths = np.asarray(column.value_lengths().fill_null(0)).astype(np.int64)
    groups = np.repeat(np.arange(len(column)), lengths)
    return _Ranked(groups, ranks(groups, len(column)) + 1, column.flatten())
