"""The step of a stateful operator: from the state of a bucket and its new rows to the next state and the output."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headrace.operators.state.ids import Hashes, Ids
from headrace.operators.state.run import NEVER
from headrace.operators.state.table import StateTable

BEGINNING_US = np.iinfo(np.int64).min
"""The watermark before the first one is set."""

END_US = 2**62
"""The final watermark of a bounded input: later than every time, with room to add durations."""


class StepTime(Struct, frozen=True, kw_only=True):
    """The time of a step: the watermark and the processing time. Both only advance."""

    watermark_us: int
    now_us: int


class StepResult(Struct, frozen=True, kw_only=True):
    """The result of a step: changes of the state, and output."""

    rows: pa.Table
    """The new rows of the state. They replace all rows of their ids."""
    deleted: Ids
    """Ids whose rows are deleted."""
    output: pa.Table
    rows_in: int = 0
    """Input rows, counted once for each window that they belong to; 0 if no row can be late."""
    corrected_rows: int = 0
    """Rows after the on-time pane of their window that corrected it."""
    late_rows: int = 0
    """Late rows that were dropped."""
    late: pa.Table | None = None
    """The late rows (`late_rows.LATE_ROWS`), if a side output takes them."""


class Lift(Protocol):
    """Prepares rows before the shuffle: it returns them in the columns of the step, with the hashes of their keys."""

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]: ...


class Step(Protocol):
    """A step must be picklable and deterministic: a batch may run again."""

    @property
    def version(self) -> int:
        """The version of the state's columns. A step must read the state of earlier versions (`migrate`)."""

    @property
    def state_schema(self) -> pa.Schema: ...

    @property
    def input_schema(self) -> pa.Schema: ...

    @property
    def output_schema(self) -> pa.Schema: ...

    @property
    def due_column(self) -> str | None:
        """The column of the state with the event-time timer of a row; None if the step has no timers, and the stream
        needs no watermark."""

    @property
    def wake_column(self) -> str | None:
        """The column with the processing-time timer of a row."""

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult: ...

    def migrate(self, rows: pa.Table, version: int) -> pa.Table:
        """Rows of an earlier version in the columns of this version."""


class Counts(Struct, frozen=True, kw_only=True):
    """The counts of one step. Rows that are neither corrections nor late were on time."""

    rows_in: int
    corrected: int
    late: int


class Advanced(Struct, frozen=True, kw_only=True):
    """A bucket after a step."""

    table: StateTable
    output: pa.Table
    counts: Counts
    late: pa.Table | None
    next_due_us: int
    """The watermark of the next timer; NEVER if there is none."""
    next_wake_us: int

    @property
    def late_rows(self) -> int:
        return self.counts.late


def advance(step: Step, table: StateTable, rows: pa.Table, time: StepTime) -> Advanced:
    result = step(table, rows, time)
    after = table.with_changes(result.rows, result.deleted)
    return Advanced(
        table=after,
        output=result.output,
        counts=Counts(rows_in=result.rows_in, corrected=result.corrected_rows, late=result.late_rows),
        late=result.late,
        next_due_us=after.next_due(step.due_column, time.watermark_us) if step.due_column else NEVER,
        next_wake_us=after.next_due(step.wake_column, time.now_us) if step.wake_column else NEVER,
    )
