"""Patterns on rows in memory, without Spark: the step with all rows, or batch by batch with a watermark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.operators.patterns.binding import bind
from headrace.operators.patterns.match_recognize import STEPS_MAX, check_pattern, pattern_shape
from headrace.operators.patterns.pattern_step import PatternStep
from headrace.operators.state.ids import ids_of
from headrace.operators.state.run import ids_column
from headrace.operators.state.step import BEGINNING_US, END_US, StepTime, advance
from headrace.operators.state.table import StateTable, with_column

Rows = Sequence[Mapping[str, Any]]


class PatternRun:
    """A pattern over rows of these columns. `time` names the column with the event time."""

    def __init__(
        self,
        text: str,
        columns: Mapping[str, pa.DataType],
        time: str | None = None,
        *,
        rows_max: int | None = None,
        steps_max: int = STEPS_MAX,
    ) -> None:
        bound = bind(text, check_pattern(text), list(columns))
        self.shape = pattern_shape(text, bound, columns, time, rows_max=rows_max, steps_max=steps_max, ties=1)
        self.step = PatternStep(self.shape)
        self._columns = columns
        self._time = time
        self._arrived = 0
        self._late_us = BEGINNING_US
        self.state = StateTable(self.step.state_schema)

    def send(self, rows: Rows, watermark_us: int) -> list[dict[str, Any]]:
        """The output of a batch."""
        time = StepTime(late_us=self._late_us, watermark_us=watermark_us, now_us=0)
        advanced = advance(self.step, self.state, self._input(rows), time)
        self.state, self._late_us = advanced.table, watermark_us
        self.result = advanced.result
        return advanced.result.output.to_pylist()  # type: ignore[no-any-return]

    def end(self) -> list[dict[str, Any]]:
        """The output of the end, for keys that wait for it without a timer too: for rows that NEXT needs."""
        rows = self.state.all_rows()
        due = with_column(rows, "due_us", pa.array(np.zeros(rows.num_rows, np.int64))).combine_chunks()
        self.state = self.state.with_changes(due, np.empty(0, np.complex128))
        return self.send([], END_US)

    def all(self, rows: Rows) -> list[dict[str, Any]]:
        """The output for bounded rows. Rows that are equal in the order keep the given order."""
        return self.send(rows, BEGINNING_US) + self.send([], END_US)

    def _input(self, rows: Rows) -> pa.Table:
        table = pa.Table.from_pylist([dict(each) for each in rows], pa.schema(list(self._columns.items())))
        keys = [tuple(each[name] for name in self.shape.bound.keys) for each in rows]
        hashes = np.array([hash(each) % 2**60 for each in keys], dtype=np.uint64)
        times = [0] * len(rows)
        if self._time is not None:
            times = table.column(self._time).combine_chunks().cast(pa.int64()).to_pylist()
        ties = range(self._arrived, self._arrived + len(rows))
        self._arrived += len(rows)
        columns = [
            ids_column(ids_of(hashes << np.uint64(3), hashes << np.uint64(2))),
            pa.array(times, pa.int64()),
            pa.array(ties, pa.int64()),
            *(table.column(name) for name in self.shape.columns),
        ]
        return pa.table(columns, schema=self.step.input_schema)


def matched(text: str, columns: Mapping[str, pa.DataType], rows: Rows, **more: Any) -> list[dict[str, Any]]:
    return PatternRun(text, columns, **more).all(rows)
