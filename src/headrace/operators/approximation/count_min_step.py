"""The step of frequencies: a count-min sketch per bucket (Cormode and Muthukrishnan, 2005).

A value has one cell in each of `depth` rows of `width` cells, and its count is estimated by the smallest of its cells.
A cell is a row of state, so a batch writes only the cells that it changed. Cells are raised to the new estimate and
never above it (conservative update), so that the error is smaller than that of plain counting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.operators.approximation.rows_with_keys import HASH_COLUMNS, key_hashes, row_fields
from headrace.operators.state.ids import Hashes, Ids, mixed
from headrace.operators.state.run import ids_column
from headrace.operators.state.step import Step, StepResult, StepTime
from headrace.operators.state.table import StateTable, ids_in, ints_of, state_schema

CELL_COUNT = "count"


class CountMinStep(Step):
    """The input has `h1`, `h2` of the value, and the columns of the row. The output has the row and the estimate."""

    def __init__(self, *, columns: Sequence[pa.Field], estimate: str, width: int, depth: int) -> None:
        self._width = width
        self._depth = depth
        self._columns = [each.name for each in row_fields(columns)]
        self.input_schema = pa.schema([*HASH_COLUMNS, *row_fields(columns)])
        self.state_schema = state_schema([pa.field(CELL_COUNT, pa.int64())])
        self.output_schema = pa.schema([*columns, pa.field(estimate, pa.int64())])

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        if rows.num_rows == 0:
            return self.unchanged()
        keys = key_hashes(rows)
        ids = self._cells(keys.first, keys.second)
        touched, places = np.unique(ids, return_inverse=True)
        places = places.reshape(ids.shape)
        counts = np.zeros(len(touched), dtype=np.int64)
        kept = table.take(touched)
        counts[np.searchsorted(touched, ids_in(kept))] = ints_of(kept, CELL_COUNT)
        estimates = counts[places].min(axis=0) + keys.counts
        np.maximum.at(counts, places, np.broadcast_to(estimates, places.shape))
        # Other values of this batch may have raised a cell further: the estimate is what the next batch would read.
        estimates = counts[places].min(axis=0)
        output = [*(rows.column(name) for name in self._columns), pa.array(estimates[keys.numbers])]
        return StepResult(
            rows=pa.table([ids_column(touched), pa.array(counts)], schema=self.state_schema),
            deleted=np.empty(0, dtype=np.complex128),
            output=pa.table(output, schema=self.output_schema),
        )

    def _cells(self, first: Hashes, second: Hashes) -> Ids:
        """The ids of the cells, by row of the sketch and value."""
        ids = np.empty((self._depth, len(first)), dtype=np.complex128)
        for row in range(self._depth):
            number = np.full(len(first), row, dtype=np.int64)
            ids[row].real = row
            ids[row].imag = mixed(first ^ mixed(second, number), number) % np.uint64(self._width)
        return ids


def width_for(error: float) -> int:
    return math.ceil(math.e / error)


def depth_for(confidence: float) -> int:
    return math.ceil(math.log(1 / (1 - confidence)))
