"""What a stateful operator supplies: a step from a bucket's state and its new rows to the next state and output."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headrace.operators.state.ids import Hashes, Ids
from headrace.operators.state.run import NEVER
from headrace.operators.state.table import StateTable

BEGINNING_US = np.iinfo(np.int64).min
"""The watermark of a stream that has none yet."""

END_US = 2**62
"""The watermark behind the last row of a bounded input: after every time there is, with room to add durations."""


class StepTime(Struct, frozen=True, kw_only=True):
    """When a step happens: what the stream knows of event time, and the clock on the wall. Both only move on."""

    watermark_us: int
    now_us: int


class StepResult(Struct, frozen=True, kw_only=True):
    """What changed, and what there is to say."""

    rows: pa.Table
    """All rows, from now on, of the ids that are in there."""
    gone: Ids
    """Ids that have no rows any more."""
    output: pa.Table
    rows_in: int = 0
    """Rows that came, one for each window that they belong to; 0 where nothing can be late."""
    corrected_rows: int = 0
    """Of them, those that came after their window's result on time, and were worked in."""
    late_rows: int = 0
    """Of them, those that came too late, and were left out."""
    late: pa.Table | None = None
    """These rows themselves (`late_rows.LATE_ROWS`), where they are to be kept."""


class Lift(Protocol):
    """What is done to rows before they travel: they come out as the step wants them, with the hashes of their keys."""

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]: ...


class Step(Protocol):
    """Must be picklable, and give the same result for the same arguments: a batch may be done again."""

    @property
    def version(self) -> int:
        """Of the state's columns. A step must read the states of earlier versions (`migrate`)."""

    @property
    def state_schema(self) -> pa.Schema: ...

    @property
    def input_schema(self) -> pa.Schema: ...

    @property
    def output_schema(self) -> pa.Schema: ...

    @property
    def due_column(self) -> str | None:
        """The state's column with the event time at which a row must be looked at again; None if time changes nothing,
        and the stream needs no watermark."""

    @property
    def wake_column(self) -> str | None:
        """The same for the clock on the wall."""

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult: ...

    def migrate(self, rows: pa.Table, version: int) -> pa.Table:
        """Rows as an earlier version kept them, in the columns of this one."""


class Counts(Struct, frozen=True, kw_only=True):
    """Of one step; what was neither corrected nor late was there in time."""

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
    """The watermark at which there is something to do again, without any new row; NEVER if there is not."""
    next_wake_us: int

    @property
    def late_rows(self) -> int:
        return self.counts.late


def advance(step: Step, table: StateTable, rows: pa.Table, time: StepTime) -> Advanced:
    result = step(table, rows, time)
    after = table.with_changes(result.rows, result.gone)
    return Advanced(
        table=after,
        output=result.output,
        counts=Counts(rows_in=result.rows_in, corrected=result.corrected_rows, late=result.late_rows),
        late=result.late,
        next_due_us=after.next_due(step.due_column, time.watermark_us) if step.due_column else NEVER,
        next_wake_us=after.next_due(step.wake_column, time.now_us) if step.wake_column else NEVER,
    )
