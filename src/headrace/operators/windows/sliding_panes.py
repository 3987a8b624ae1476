"""The step of sliding windows: a window for every time of a row, looking back from it.

The state has a row for each such time with the folds of its rows. The result of a window merges all state rows in its
range. A state row is stored as long as a later window may include it, even after its own window was emitted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.operators.state.ids import Ints, is_first, ranges, segment_starts
from headrace.operators.state.step import StepTime
from headrace.operators.state.table import ids_in, ints_of
from headrace.operators.windows.panes import PaneShape, PaneStep, Slots


class SlidingStep(PaneStep):
    """Internally, `start` is inclusive and `end` exclusive, as in other windows: `end` is 1 µs after the row."""

    shown_before_us = 1

    def __init__(self, shape: PaneShape, *, length_us: int) -> None:
        super().__init__(shape)
        self.length_us = length_us

    def slots_of(self, before: pa.Table, rows: pa.Table, time: StepTime) -> Slots:
        return SlidingSlots(self, before, rows, time, length_us=self.length_us)


class SlidingSlots(Slots):
    def __init__(
        self, step: PaneStep, before: pa.Table, rows: pa.Table, time: StepTime, *, length_us: int
    ) -> None:
        self._length_us = length_us
        super().__init__(step, before, rows, time)

    def _sort(self, together: pa.Table) -> tuple[Ints, Ints]:
        ids, ends = ids_in(together), ints_of(together, "end")
        order = np.lexsort((ends, ids))
        return order, segment_starts(ids[order], ends[order])

    def _merge(self) -> None:
        super()._merge()
        positions, starts = self._reached()
        picked = pa.array(positions)
        self.rows = np.add.reduceat(self.rows_kept[positions], starts)
        self.emitted_states = [
            fold.merge([column.take(picked) for column in columns], starts)
            for fold, columns in zip(self._step.folds, self.folded, strict=True)
        ]
        # The last window that includes a row ends almost one length later.
        self.delete_us = self.delete_us + self._length_us - 1

    def _reached(self) -> tuple[Ints, Ints]:
        """The slots in the range of each window, concatenated, and the start of each window in them."""
        ids = ids_in(self._sorted)[self._starts]
        number = np.cumsum(is_first(ids))
        # Complex numbers sort by key and then by time. They are exact for centuries.
        since_us = (self.end - self.end.min()).astype(np.float64)
        places = number + 1j * since_us
        first = np.searchsorted(places, number + 1j * (since_us - self._length_us), side="right")
        ends = np.arange(len(ids)) + 1
        return ranges(first, ends), np.cumsum(ends - first) - (ends - first)
