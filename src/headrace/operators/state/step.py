"""The step of a stateful operator: from the state of a bucket and its new rows to the next state and the output."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headrace.operators.state.expiring import NOTHING_EXPIRED_US, ExpiringTable, table_of
from headrace.operators.state.ids import Hashes, Ids
from headrace.operators.state.run import NEVER, Run
from headrace.operators.state.table import StateTable

BEGINNING_US = np.iinfo(np.int64).min
"""The watermark before the first one is set."""

END_US = 2**62
"""The final watermark of a bounded input: later than every time, with room to add durations."""


class StepTime(Struct, frozen=True, kw_only=True):
    """The time of a step: the watermark and the processing time. Both only advance.

    An operator behind another one gets rows in the same batch in which the watermark passes them: the operator before
    it has just emitted them. So a row is judged by the watermark of the previous batch, and then the timers fire.
    """

    late_us: int
    """The watermark of the previous batch: a row before it is late."""
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


class Step(abc.ABC):
    """A step must be picklable and deterministic: a batch may run again."""

    version = 1
    """The version of the state's columns. A step must read the state of earlier versions (`migrate`)."""
    state_schema: pa.Schema
    input_schema: pa.Schema
    output_schema: pa.Schema
    due_column: str | None = None
    """The column of the state with the event-time timer of a row; None if the step has no timers, and the stream needs
    no watermark."""
    wake_column: str | None = None
    """The column with the processing-time timer of a row."""
    expires = False
    """Whether rows of the state are only added, and expire when the watermark reaches their `due_us`: the state is an
    `ExpiringTable`."""

    def table_of(self, runs: Sequence[Run] = (), expired_us: int | None = None) -> StateTable:
        """The state with these runs, whose rows have expired until a watermark."""
        if self.expires and expired_us is None:
            expired_us = NOTHING_EXPIRED_US
        return table_of(self.state_schema, runs, expired_us)

    @abc.abstractmethod
    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult: ...

    def migrate(self, rows: pa.Table, version: int) -> pa.Table:
        """Rows of an earlier version in the columns of this version."""
        raise AssertionError(f"there never was a version {version}")

    def unchanged(self, **counts: Any) -> StepResult:
        """The result of a step that neither changes the state nor emits anything."""
        return StepResult(
            rows=self.state_schema.empty_table(),
            deleted=np.empty(0, dtype=np.complex128),
            output=self.output_schema.empty_table(),
            **counts,
        )


class Advanced(Struct, frozen=True, kw_only=True):
    """A bucket after a step."""

    table: StateTable
    result: StepResult
    next_due_us: int
    """The watermark of the next timer; NEVER if there is none."""
    next_wake_us: int


def advance(step: Step, table: StateTable, rows: pa.Table, time: StepTime) -> Advanced:
    result = step(table, rows, time)
    after = table.with_changes(result.rows, result.deleted)
    if isinstance(after, ExpiringTable):
        after = after.expired(time.watermark_us)
    return Advanced(
        table=after,
        result=result,
        next_due_us=after.next_due(step.due_column, time.watermark_us) if step.due_column else NEVER,
        next_wake_us=after.next_due(step.wake_column, time.now_us) if step.wake_column else NEVER,
    )
