"""A step: it changes the state of a bucket, emits output, and sets the next timers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headrace.operators.state.run import NEVER, ids_column
from headrace.operators.state.step import Step, StepResult, StepTime, advance
from headrace.operators.state.table import StateTable, ids_in, state_schema

SCHEMA = state_schema([pa.field("due_us", pa.int64()), pa.field("wake_us", pa.int64())])


def table_of(*rows: tuple[int, int, int]) -> pa.Table:
    """(id, due, wake)"""
    ids = np.array([row[0] for row in rows], dtype=np.complex128)
    numbers = [pa.array([row[place] for row in rows], pa.int64()) for place in (1, 2)]
    return pa.table([ids_column(ids), *numbers], schema=SCHEMA)


class Timers(Step):
    """Stores its input, emits the rows that are due, and deletes them."""

    state_schema = input_schema = output_schema = SCHEMA

    def __init__(self, *, due: bool = True, wake: bool = True) -> None:
        self.due_column = "due_us" if due else None
        self.wake_column = "wake_us" if wake else None

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        due = table.due("due_us", time.watermark_us)
        if rows.num_rows == 0 and len(due) == 0:
            return self.unchanged(late_rows=3)
        return StepResult(rows=rows, deleted=due[~np.isin(due, ids_in(rows))], output=table.take(due))


def at(watermark_us: int, now_us: int = 0) -> StepTime:
    return StepTime(late_us=watermark_us, watermark_us=watermark_us, now_us=now_us)


def test_the_next_timers_are_the_earliest_times_that_have_not_passed() -> None:
    advanced = advance(
        Timers(), StateTable(SCHEMA), table_of((1, 10, 100), (2, 20, 50), (3, 5, 70)), at(5, 60)
    )
    assert (advanced.next_due_us, advanced.next_wake_us) == (10, 70)


@pytest.mark.parametrize(("due", "wake"), [(True, False), (False, True), (False, False)])
def test_a_step_without_timers_is_never_due(due: bool, wake: bool) -> None:
    step = Timers(due=due, wake=wake)
    advanced = advance(step, StateTable(SCHEMA), table_of((1, 10, 100)), at(0))
    assert advanced.next_due_us == (10 if due else NEVER)
    assert advanced.next_wake_us == (100 if wake else NEVER)


def test_the_state_has_the_new_rows_and_not_the_deleted_ones() -> None:
    step = Timers()
    first = advance(step, StateTable(SCHEMA), table_of((1, 10, NEVER), (2, 20, NEVER)), at(0))
    second = advance(step, first.table, table_of((3, 30, NEVER)), at(10))
    assert second.result.output.column("due_us").to_pylist() == [10]
    assert sorted(second.table.all_rows().column("due_us").to_pylist()) == [20, 30]


def test_an_unchanged_step_keeps_the_table_and_its_counts() -> None:
    first = advance(Timers(), StateTable(SCHEMA), table_of((1, 10, NEVER)), at(0))
    second = advance(Timers(), first.table, SCHEMA.empty_table(), at(9))
    assert second.table is first.table
    assert second.result.output.num_rows == 0
    assert second.result.late_rows == 3


def test_state_of_an_unknown_earlier_version_is_a_defect() -> None:
    with pytest.raises(AssertionError, match="version 0"):
        Timers().migrate(table_of(), 0)
