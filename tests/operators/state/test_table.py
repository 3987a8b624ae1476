"""The state of a bucket beside a dict: any changes, in any order, restored in between."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.state.ids import Ids
from headrace.operators.state.run import NEVER, Run, ids_column
from headrace.operators.state.table import LIKE_MAX, StateTable, state_schema

SCHEMA = state_schema([pa.field("due_us", pa.int64()), pa.field("word", pa.string())])

Rows = list[tuple[int, str]]

changes = st.lists(
    st.dictionaries(
        st.integers(0, 15),
        st.lists(st.tuples(st.integers(0, 50), st.text(max_size=3)), max_size=3),
        max_size=8,
    ),
    max_size=12,
)


def ids_of(numbers: list[int]) -> Ids:
    # Half of them differ in the second part only.
    return np.array([complex(number // 2, number % 2) for number in numbers], dtype=np.complex128)


def table_of(rows: dict[int, Rows]) -> pa.Table:
    flat = [(number, *row) for number, inside in rows.items() for row in inside]
    columns = [
        ids_column(ids_of([row[0] for row in flat])),
        pa.array([row[1] for row in flat], pa.int64()),
        pa.array([row[2] for row in flat], pa.string()),
    ]
    return pa.table(columns, schema=SCHEMA)


def as_list(rows: pa.Table) -> list[tuple[bytes, int, str]]:
    return sorted((row["id"], row["due_us"], row["word"]) for row in rows.to_pylist())


@settings(max_examples=200)
@given(changes, st.lists(st.integers(0, 20), unique=True), st.integers(0, 50), st.booleans())
def test_a_table_is_a_dict_of_rows(
    changes: list[dict[int, Rows]], wanted: list[int], until: int, restarts: bool
) -> None:
    table, model = StateTable(SCHEMA), dict[int, Rows]()
    for change in changes:
        deleted = [number for number, rows in change.items() if not rows]
        model.update(change)
        table = table.with_changes(table_of(change), ids_of(deleted))
        if restarts:
            runs = [Run.decode(run.encode(), name=run.name) for run in table.runs]
            table = StateTable(SCHEMA, runs)
    assert as_list(table.all_rows()) == as_list(table_of(model))
    expected = {number: model.get(number, []) for number in wanted}
    assert as_list(table.take(ids_of(wanted))) == as_list(table_of(expected))
    due = [number for number, rows in model.items() if any(row[0] <= until for row in rows)]
    assert sorted(table.due("due_us", until), key=lambda one: (one.real, one.imag)) == sorted(
        ids_of(due), key=lambda one: (one.real, one.imag)
    )
    later = [row[0] for rows in model.values() for row in rows if row[0] > until]
    assert table.next_due("due_us", until) <= min(later, default=NEVER)


def test_written_bytes_grow_with_the_changed_rows() -> None:
    kept, touched, rounds = 20_000, 20, 200
    table = StateTable(SCHEMA).with_changes(table_of({n: [(n, "x")] for n in range(kept)}), ids_of([]))
    written, known = 0, {run.name for run in table.runs}
    for number in range(rounds):
        some = range(number * touched, (number + 1) * touched)
        table = table.with_changes(table_of({n: [(n, "y")] for n in some}), ids_of([]))
        written += sum(len(run) for run in table.runs if run.name not in known)
        known |= {run.name for run in table.runs}
    # Each round writes its rows, and again whenever its run is merged: the logarithm of rounds, which is 2 here.
    assert written <= touched * rounds * 2
    assert len(table.runs) <= 2 * LIKE_MAX


def test_replaced_rows_take_no_more_space_than_current_rows() -> None:
    kept = 100
    table = StateTable(SCHEMA).with_changes(table_of({n: [(n, "x")] for n in range(kept)}), ids_of([]))
    for number in range(500):
        table = table.with_changes(table_of({number * 7 % kept: [(number, "y")]}), ids_of([]))
        assert sum(map(len, table.runs)) < 2 * kept


def test_deleted_state_takes_no_space() -> None:
    table = StateTable(SCHEMA).with_changes(table_of({n: [(n, "x")] for n in range(100)}), ids_of([]))
    table = table.with_changes(SCHEMA.empty_table(), ids_of(list(range(100))))
    assert table.runs == ()


def test_state_that_is_deleted_in_steps_takes_no_space() -> None:
    table = StateTable(SCHEMA).with_changes(table_of({n: [(n, "x")] for n in range(100)}), ids_of([]))
    for number in range(100):
        table = table.with_changes(SCHEMA.empty_table(), ids_of([number]))
    assert table.runs == ()
