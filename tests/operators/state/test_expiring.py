"""State whose rows expire, beside a list: any rows, any watermarks, restored in between."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.state.copies import keep_copy, open_copies
from headrace.operators.state.expiring import LIKE_MAX, ExpiringTable
from headrace.operators.state.inspect import rows_of_runs
from headrace.operators.state.run import Run, ids_column
from headrace.operators.state.table import state_schema

SCHEMA = state_schema([pa.field("due_us", pa.int64()), pa.field("word", pa.string())])
NO_IDS = np.empty(0, dtype=np.complex128)

Row = tuple[int, int, str]
"""Id, when it expires, and a word."""

batches = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30), st.text(max_size=2)), max_size=6),
        st.integers(0, 4),
    ),
    max_size=40,
)
"""New rows, and by how much the watermark advances."""


def table_of(rows: list[Row]) -> pa.Table:
    columns = [
        ids_column(np.array([complex(row[0] // 2, row[0] % 2) for row in rows], dtype=np.complex128)),
        pa.array([row[1] for row in rows], pa.int64()),
        pa.array([row[2] for row in rows], pa.string()),
    ]
    return pa.table(columns, schema=SCHEMA)


def counted(rows: pa.Table) -> Counter[tuple[bytes, int, str]]:
    return Counter((row["id"], row["due_us"], row["word"]) for row in rows.to_pylist())


@settings(max_examples=200)
@given(batches, st.booleans())
def test_table_has_the_rows_that_have_not_expired(
    batches: list[tuple[list[Row], int]], restarts: bool
) -> None:
    table, model, watermark = ExpiringTable(SCHEMA), list[Row](), 0
    for rows, step in batches:
        watermark += step
        new = [(number, due + watermark, word) for number, due, word in rows]
        model = [row for row in [*model, *new] if row[1] > watermark]
        table = table.with_changes(table_of(new), NO_IDS).expired(watermark)
        if restarts:
            runs = [Run.decode(run.encode(), name=run.name) for run in table.runs]
            table = ExpiringTable(SCHEMA, runs, expired_us=table.expired_us)
        assert counted(table.all_rows()) == counted(table_of(model))
        assert all((np.diff(run.ids.real) >= 0).all() for run in table.runs)
    assert table.next_due("due_us", watermark) == min(
        (row[1] for row in model), default=table.next_due("due_us", 2**40)
    )
    assert table.expired(2**40).runs == ()


def test_nothing_is_written_when_rows_expire() -> None:
    table = ExpiringTable(SCHEMA)
    for number in range(3):
        table = table.with_changes(table_of([(n, number * 100 + n, "x") for n in range(100)]), NO_IDS)
    names = [run.name for run in table.runs]
    assert [run.name for run in table.expired(60).runs] == names
    assert [run.name for run in table.expired(99).runs] == names[1:]
    assert table.expired(60).all_rows().num_rows == 239


def test_a_step_without_expired_rows_is_no_change() -> None:
    table = ExpiringTable(SCHEMA).with_changes(table_of([(1, 50, "x")]), NO_IDS).expired(10)
    assert table.expired(49).expired_us == table.expired_us


def test_a_run_with_few_live_rows_is_written_again() -> None:
    rows = [(n, 10 if n < 90 else 1_000, "x") for n in range(100)]
    (run,) = ExpiringTable(SCHEMA).with_changes(table_of(rows), NO_IDS).expired(10).runs
    assert len(run) == 10


def test_a_row_is_written_a_logarithm_of_times() -> None:
    table, written, touched, rounds = ExpiringTable(SCHEMA), 0, 20, 300
    known: set[str] = set()
    for number in range(rounds):
        some = [(n, 10_000, "x") for n in range(number * touched, (number + 1) * touched)]
        table = table.with_changes(table_of(some), NO_IDS).expired(0)
        written += sum(len(run) for run in table.runs if run.name not in known)
        known |= {run.name for run in table.runs}
        assert len(table.runs) <= 4 * LIKE_MAX
    assert written <= touched * rounds * 4


def test_a_copy_has_no_expired_rows(tmp_path: Path) -> None:
    table = ExpiringTable(SCHEMA)
    for number in range(2):
        table = table.with_changes(table_of([(1, 10 + number, "x"), (1, 50, "y")]), NO_IDS)
    table = table.expired(10)
    keep_copy(tmp_path, owner="join 1", bucket=3, batch_id=0, runs=table.runs, expired_us=table.expired_us)
    (copied,) = open_copies(tmp_path, "join 1", 0)
    found = copied.rows()
    assert found is not None
    assert sorted(found["word"].to_pylist()) == ["x", "y", "y"]
    stored = rows_of_runs(table.runs, 3, expired_us=table.expired_us)
    assert stored is not None
    assert stored.num_rows == 3
