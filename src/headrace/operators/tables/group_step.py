"""The steps of groups over a changelog: when a group changes, its old result is retracted and the new one is emitted.

Counts, and sums and averages of integers and decimals, are stored as totals, one row of state per group; a retracted
row is subtracted. All other aggregates need the values: the maximum because the next greatest value replaces a
retracted one, and sums of floats because subtraction is not exact. For these, each distinct value of a group is stored
once with its count, and the results of changed groups are computed again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.folds import (
    DECIMAL_DIGITS_MAX,
    Columns,
    CountFold,
    DecimalSumFold,
    DeviationFold,
    Fold,
    MeanFold,
    SumFold,
)
from headrace.operators.ordering import differ
from headrace.operators.state.ids import Hashes, Ints, Mask, distinct, ids_of, segment_starts
from headrace.operators.state.run import ids_column
from headrace.operators.state.step import Step, StepResult, StepTime
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
from headrace.operators.tables.weighted import (
    WEIGHT,
    Tally,
    changelog_schema,
    emitted,
    numbered,
    sums,
    take_keys,
    weighted_schema,
)

NamedFolds = Sequence[tuple[str, Fold]]


def total_of(fold: Fold, values: pa.DataType | None) -> Fold | None:
    """The fold whose state can be stored as totals; None if the values are needed."""
    if isinstance(fold, DecimalSumFold):
        return fold
    is_integer = values is not None and pa.types.is_integer(values)
    if isinstance(fold, MeanFold):
        return MeanFold(values) if is_integer else None
    return fold if isinstance(fold, CountFold) or (isinstance(fold, SumFold) and is_integer) else None


def scaled(fold: Fold, columns: Columns, weights: Ints) -> Columns:
    """The states of values that occur as often as their weights."""
    if isinstance(fold, CountFold | SumFold | DecimalSumFold):
        return [_times(each, weights) for each in columns]
    if isinstance(fold, DeviationFold):
        return [_times(columns[0], weights), *columns[1:]]
    return columns  # minimum and maximum do not depend on the count


class TotalsStep(Step):
    """The step of totals. The input has `id`, the keys, `weight` (the change of the row count), and the totals."""

    def __init__(self, *, keys: Sequence[pa.Field], folds: NamedFolds) -> None:
        own = numbered("k", keys, key=[each.name for each in keys])
        self.keys = [each.name for each in own]
        self.folds = [fold for _, fold in folds]
        self.totals = [
            [f"f{number}_{part}" for part in range(len(fold.state))] for number, fold in enumerate(self.folds)
        ]
        totals = [
            pa.field(name, kind)
            for names, fold in zip(self.totals, self.folds, strict=True)
            for name, kind in zip(names, fold.state, strict=True)
        ]
        self.state_schema = self.input_schema = state_schema([*own, pa.field(WEIGHT, pa.int64()), *totals])
        self.output_schema = _output_schema(keys, folds)

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        ids = distinct(ids_in(rows))
        if len(ids) == 0:
            return self.unchanged()
        before = table.take(ids)
        now = merge_totals(pa.concat_tables([before, rows]).combine_chunks(), self.folds, self.totals)
        # Also in the order of the ids, with 0 for new groups.
        was = merge_totals(pa.concat_tables([before, _zeroed(now)]).combine_chunks(), self.folds, self.totals)
        is_empty = np.ones(now.num_rows, dtype=np.bool_)
        for name in (WEIGHT, *(name for names in self.totals for name in names)):
            is_empty &= np.asarray(pc.equal(column_of(now, name), 0))
        existed = np.isin(ids, ids_in(before))
        return StepResult(
            rows=now.filter(pa.array(~is_empty)),
            deleted=ids[is_empty & existed],
            output=group_changes(
                self.output_schema,
                [column_of(now, name) for name in self.keys],
                (ints_of(was, WEIGHT) > 0, self._results(was)),
                (ints_of(now, WEIGHT) > 0, self._results(now)),
            ),
        )

    def _results(self, rows: pa.Table) -> Columns:
        return [
            fold.result([column_of(rows, name) for name in names])
            for fold, names in zip(self.folds, self.totals, strict=True)
        ]


def merge_totals(rows: pa.Table, folds: Sequence[Fold], totals: Sequence[Sequence[str]]) -> pa.Table:
    """Merge the rows of each id into one, in the order of the ids."""
    ids = ids_in(rows)
    ordered = rows
    if not (ids[1:] >= ids[:-1]).all():
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        ordered = rows.take(pa.array(order)).combine_chunks()
    starts = segment_starts(ids)
    merged = ordered.take(pa.array(starts)).combine_chunks()
    columns = {WEIGHT: pa.array(sums(ints_of(ordered, WEIGHT), starts))}
    for fold, names in zip(folds, totals, strict=True):
        states = fold.merge([column_of(ordered, name) for name in names], starts)
        columns.update(zip(names, states, strict=True))
    for name, column in columns.items():
        merged = with_column(merged, name, column)
    return merged


class TotalsLift:
    """Lift rows with `h1`, `h2`, `weight`, `k0`… and `a0`… (for folds that need values) to one row per group.

    Without hashes all rows are one group; without weights each row counts once.
    """

    def __init__(self, step: TotalsStep) -> None:
        self._step = step

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        step = self._step
        none = np.zeros(rows.num_rows, dtype=np.uint64)
        first, second = hashes_of(rows) if HASHES[0] in rows.column_names else (none, none)
        ids = ids_of(first, second)
        weights = (
            ints_of(rows, WEIGHT) if WEIGHT in rows.column_names else np.ones(rows.num_rows, dtype=np.int64)
        )
        lifted = lift_values(step.folds, rows, weights)
        columns = [
            ids_column(ids),
            *(column_of(rows, name) for name in step.keys),
            pa.array(weights),
            *(column for columns in lifted for column in columns),
        ]
        merged = merge_totals(pa.table(columns, schema=step.input_schema), step.folds, step.totals)
        _, heads = np.unique(ids, return_index=True)
        return merged, first[heads]


class ValuesStep(Step):
    """The step of values. The input has an id of group and values, the weight, the keys, and the values."""

    def __init__(
        self, *, keys: Sequence[pa.Field], folds: NamedFolds, values: Sequence[tuple[int, pa.DataType]]
    ) -> None:
        own = numbered("k", keys, key=[each.name for each in keys])
        self.keys = [each.name for each in own]
        self.folds = [fold for _, fold in folds]
        kept = [pa.field(f"a{number}", kind) for number, kind in values]
        self.state_schema = self.input_schema = weighted_schema([*own, *kept])
        self.output_schema = _output_schema(keys, folds)

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        ids = ids_in(rows)
        if len(ids) == 0:
            return self.unchanged()
        tally = Tally(take_keys(table, distinct(ids.real)), rows)
        kept, deleted = tally.changes()
        heads = pa.array(tally.group_starts)
        output = group_changes(
            self.output_schema,
            [column_of(tally.rows, name).take(heads) for name in self.keys],
            self._results(tally, tally.before),
            self._results(tally, tally.after),
        )
        return StepResult(rows=kept, deleted=deleted, output=output)

    def _results(self, tally: Tally, weights: Ints) -> tuple[Mask, Columns]:
        """A mask of the groups that have rows, and the results of all groups, null for empty ones."""
        group_count = len(tally.group_starts)
        present = np.flatnonzero(weights)
        group = tally.group[present]
        is_shown = np.bincount(group, minlength=group_count) > 0
        starts = np.searchsorted(group, np.flatnonzero(is_shown))
        rows = tally.rows.take(pa.array(present)).combine_chunks()
        place = np.cumsum(is_shown) - 1
        positions = pa.array(place, mask=~is_shown)
        results = [
            fold.result(fold.merge(columns, starts)).take(positions)
            for fold, columns in zip(self.folds, lift_values(self.folds, rows, weights[present]), strict=True)
        ]
        return is_shown, results


def lift_values(folds: Sequence[Fold], rows: pa.Table, weights: Ints) -> list[Columns]:
    lifted = []
    for number, fold in enumerate(folds):
        name = f"a{number}"
        values = column_of(rows, name) if name in rows.column_names else None
        lifted.append(scaled(fold, fold.lift(values, np.zeros(rows.num_rows, np.int64)), weights))
    return lifted


def group_changes(
    schema: pa.Schema, keys: Columns, was: tuple[Mask, Columns], now: tuple[Mask, Columns]
) -> pa.Table:
    """The changelog of the groups whose results differ between `was` and `now`."""
    was_shown, old = was
    is_shown, new = now
    is_other = was_shown != is_shown
    for one, other in zip(old, new, strict=True):
        is_other |= was_shown & is_shown & differ(one, other)
    retracted, added = was_shown & is_other, is_shown & is_other
    columns = [
        pa.concat_arrays([before.filter(pa.array(retracted)), after.filter(pa.array(added))])
        for before, after in zip([*keys, *old], [*keys, *new], strict=True)
    ]
    return emitted(schema, columns, np.repeat(np.array([-1, 1]), [retracted.sum(), added.sum()]))


def _output_schema(keys: Sequence[pa.Field], folds: NamedFolds) -> pa.Schema:
    return changelog_schema([*keys, *(pa.field(name, fold.result_type) for name, fold in folds)])


def _zeroed(rows: pa.Table) -> pa.Table:
    zeros = pa.array(np.zeros(rows.num_rows, dtype=np.int64))
    for field in rows.schema:
        if field.name == WEIGHT or field.name.startswith("f"):
            rows = with_column(rows, field.name, zeros.cast(field.type))
    return rows


def _times(column: pa.Array, weights: Ints) -> pa.Array:
    """The product. An overflow is an error."""
    if pa.types.is_decimal(column.type):
        # The digits of a value and a weight together are fewer than those of the state.
        values = column.cast(pa.decimal256(DECIMAL_DIGITS_MAX, column.type.scale))
        return pc.multiply(values, pa.array(weights).cast(pa.decimal256(19, 0))).cast(column.type)
    return pc.multiply_checked(column, pa.array(weights).cast(column.type))
