"""The step of a join of two tables: it computes how changed rows of either side change the joined pairs.

The state has the rows of both sides of each key. A changed row is paired with all rows of the other side, an unchanged
row with the changed rows of the other side. So each pair is evaluated once, for the change of its count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.operators.state.ids import Ids, Ints, distinct, ranges
from headrace.operators.state.step import Step, StepResult, StepTime
from headrace.operators.state.table import StateTable, column_of, ids_in
from headrace.operators.tables.weighted import (
    Tally,
    changelog_schema,
    emitted,
    numbered,
    sides_of,
    take_keys,
    weighted_schema,
)

LEFT, RIGHT = 0, 1


class JoinStep(Step):
    """The join of two changelogs.

    `on` has the pairs of a left and a right column that must be equal. Two columns of the same name become one.
    `keeps` has a flag per side: whether its rows without a match are emitted too.
    """

    def __init__(
        self,
        *,
        left: Sequence[pa.Field],
        right: Sequence[pa.Field],
        on: Sequence[tuple[str, str]],
        keeps: tuple[bool, bool],
    ) -> None:
        self.keeps = keeps
        own = (
            numbered("a", left, key=[pair[LEFT] for pair in on]),
            numbered("b", right, key=[pair[RIGHT] for pair in on], owner="other."),
        )
        self._names = tuple([each.name for each in side] for side in own)
        self.state_schema = self.input_schema = weighted_schema([*own[LEFT], *own[RIGHT]])
        shared = {one for one, other in on if one == other}
        place = {each.name: number for number, each in enumerate(right) if each.name in shared}
        self._partner_of_left = [place.get(each.name) for each in left]
        self._shown_right = [number for number, each in enumerate(right) if each.name not in shared]
        self.output_schema = changelog_schema([*left, *(right[number] for number in self._shown_right)])

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        ids = distinct(ids_in(rows))
        if len(ids) == 0:
            return self.unchanged()
        tally = Tally(self._before(table, ids), rows)
        kept, deleted = tally.changes()
        return StepResult(rows=kept, deleted=deleted, output=_Pairs(self, tally).output())

    def _before(self, table: StateTable, ids: Ids) -> pa.Table:
        """The state of the changed rows and of the rows that they are paired with."""
        sides = sides_of(ids)
        changed = [distinct(ids.real[sides == side]) for side in (LEFT, RIGHT)]
        parts, is_read = [], np.zeros(len(ids), dtype=np.bool_)
        for side, other in ((LEFT, RIGHT), (RIGHT, LEFT)):
            keys = changed[other]
            if self.keeps[other]:
                # Whether a row of the other side has a match depends on all rows of this side.
                keys = distinct(np.concatenate(changed))
            parts.append(take_keys(table, keys, side))
            is_read |= (sides == side) & np.isin(ids.real, keys)
        parts.append(table.take(ids[~is_read]))
        return pa.concat_tables(parts)

    def columns(self, rows: pa.Table, left: pa.Array, right: pa.Array) -> list[pa.Array]:
        """The output columns of pairs of positions, one of which may be null."""
        own = [column_of(rows, name).take(left) for name in self._names[LEFT]]
        for number, partner in enumerate(self._partner_of_left):
            if partner is not None and left.null_count:
                its = column_of(rows, self._names[RIGHT][partner])
                missing = np.asarray(left.is_null())
                chosen = np.where(missing, np.asarray(right.fill_null(0)) + rows.num_rows, left.fill_null(0))
                both = pa.concat_arrays([column_of(rows, self._names[LEFT][number]), its])
                own[number] = both.take(pa.array(chosen.astype(np.int64)))
        return own + [column_of(rows, self._names[RIGHT][number]).take(right) for number in self._shown_right]


class _Pairs:
    """The pairs as positions in the tally. Its rows are sorted by key, the left rows of a key first."""

    def __init__(self, step: JoinStep, tally: Tally) -> None:
        self._step = step
        self._tally = tally
        self._before, self._after = tally.before, tally.after
        self._changed = self._before != self._after
        sides = sides_of(tally.ids)
        self._of_side = [np.flatnonzero(sides == side) for side in (LEFT, RIGHT)]
        self._group_count = int(tally.group[-1]) + 1

    def output(self) -> pa.Table:
        parts = [
            self._matched(),
            *(self._unmatched(side) for side in (LEFT, RIGHT) if self._step.keeps[side]),
        ]
        left = pa.concat_arrays([left for left, _, _ in parts])
        right = pa.concat_arrays([right for _, right, _ in parts])
        weights = np.concatenate([weights for _, _, weights in parts])
        return emitted(self._step.output_schema, self._step.columns(self._tally.rows, left, right), weights)

    def _matched(self) -> tuple[pa.Array, pa.Array, Ints]:
        left, right = self._of_side
        changed = self._changed
        pairs = [
            self._paired(left[changed[left]], right),
            self._paired(left[~changed[left]], right[changed[right]]),
        ]
        one, other = (np.concatenate(each) for each in zip(*pairs, strict=True))
        weights = self._after[one] * self._after[other] - self._before[one] * self._before[other]
        is_emitted = weights != 0
        return pa.array(one[is_emitted]), pa.array(other[is_emitted]), weights[is_emitted]

    def _paired(self, left: Ints, right: Ints) -> tuple[Ints, Ints]:
        """Each left row with each right row of the same key. Both are sorted by key."""
        group = self._tally.group
        first = np.searchsorted(group[right], group[left])
        end = np.searchsorted(group[right], group[left], side="right")
        return np.repeat(left, end - first), right[ranges(first, end)]

    def _unmatched(self, side: int) -> tuple[pa.Array, pa.Array, Ints]:
        own, other = self._of_side[side], self._of_side[1 - side]
        group = self._tally.group
        alone_before, alone_after = (
            np.bincount(group[other], weights=number[other], minlength=self._group_count) == 0
            for number in (self._before, self._after)
        )
        weights = self._after[own] * alone_after[group[own]] - self._before[own] * alone_before[group[own]]
        is_emitted = weights != 0
        found = pa.array(own[is_emitted], pa.int64())
        no_match = pa.nulls(len(found), pa.int64())
        return (
            (found, no_match, weights[is_emitted]) if side == LEFT else (no_match, found, weights[is_emitted])
        )
