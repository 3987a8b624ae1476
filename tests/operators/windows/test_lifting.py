"""Lifts: the slots of rows beside plain Python, with the rows of a slot merged as early as possible."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.state.ids import Hashes
from headrace.operators.state.step import BEGINNING_US
from headrace.operators.windows.lifting import (
    ClockLift,
    ClockSlots,
    InstantLift,
    RowLift,
    SessionLift,
    WindowLift,
)
from headrace.operators.windows.panes import PaneRules, PaneShape, PaneStep
from tests.operators.windows.pane_oracle import Row, clock, results
from tests.operators.windows.stepping import FOLDS, KEYS, rows, table_of

STEP = PaneStep(PaneShape(keys=KEYS, folds=FOLDS, rules=PaneRules()))
SHAPES = [(10, 10, 0), (10, 4, 0), (20, 5, 3), (3, 10, 2)]


def lifted(lift: WindowLift, table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Key, start, end, count and results of each slot."""
    slots, hashes = lift(table)
    assert slots.schema.equals(STEP.input_schema)
    assert hashes.tolist() == key_hashes(slots.column("k0").to_pylist()).tolist()
    states = [
        [slots.column(f"f{number}_{part}").combine_chunks() for part in range(len(fold.state))]
        for number, fold in enumerate(STEP.folds)
    ]
    values = [fold.result(columns).to_pylist() for fold, columns in zip(STEP.folds, states, strict=True)]
    values[-1] = [tuple(each) for each in values[-1]]
    named = (slots.column(name).to_pylist() for name in ("k0", "start", "end", "rows"))
    return Counter(zip(*named, *values, strict=True))


def key_hashes(keys: list[str]) -> Hashes:
    return np.array([hash(key) for key in keys], dtype=np.int64).view(np.uint64)


def slots_of(assigned: list[tuple[str, int, int, Row]]) -> Counter[tuple[Any, ...]]:
    inside: dict[tuple[str, int, int], list[Row]] = {}
    for key, start, end, row in assigned:
        inside.setdefault((key, start, end), []).append(row)
    return Counter((*slot, len(there), *results(there)) for slot, there in inside.items())


@settings(max_examples=40)
@given(rows, st.sampled_from(SHAPES))
def test_rows_of_a_window_become_one_slot(rows: list[Row], shape: tuple[int, int, int]) -> None:
    length, every, offset = shape
    lift = ClockLift(STEP, ClockSlots(length_us=length, every_us=every, offset_us=offset))
    assigned = [(row[0], start, end, row) for row in rows for start, end in clock(*shape)(row[1])]
    assert lifted(lift, table_of(rows)) == slots_of(assigned)


@settings(max_examples=40)
@given(rows)
def test_rows_with_the_same_key_and_time_become_one_slot_of_a_sliding_window(rows: list[Row]) -> None:
    lift = InstantLift(STEP, 10)
    expected = slots_of([(row[0], row[1] - 9, row[1] + 1, row) for row in rows])
    assert lifted(lift, table_of(rows)) == expected


@pytest.mark.parametrize("gap_us", [0, 8, None])
@settings(max_examples=20)
@given(rows)
def test_each_row_of_a_count_window_stays_a_slot(gap_us: int | None, rows: list[Row]) -> None:
    lift = RowLift(STEP, gap_us)
    gaps = [number if gap_us is None else gap_us for number in range(len(rows))]
    expected = Counter(
        (row[0], row[1], row[1] + gap, 1, *results([row])) for row, gap in zip(rows, gaps, strict=True)
    )
    assert lifted(lift, table_of(rows, gap=pa.array(gaps, pa.int64()))) == expected


ROWS: list[Row] = [("a", 0, 1), ("b", 3, 1), ("a", 5, 2), ("a", 4, 3), ("a", 20, 4), ("a", 27, 5)]


@pytest.mark.parametrize(
    ("late_until_us", "expected"),
    [
        (BEGINNING_US, [("a", 0, 13, 3), ("a", 20, 35, 2), ("b", 3, 11, 1)]),
        # The slot of the first row ends at 8, and may be late.
        (8, [("a", 0, 8, 1), ("a", 4, 13, 2), ("a", 20, 35, 2), ("b", 3, 11, 1)]),
        (
            12,
            [("a", 0, 8, 1), ("a", 4, 12, 1), ("a", 5, 13, 1), ("a", 20, 35, 2), ("b", 3, 11, 1)],
        ),
        (None, [(row[0], row[1], row[1] + 8, 1) for row in sorted(ROWS)]),
    ],
)
def test_rows_that_are_not_late_become_sessions(
    late_until_us: int | None, expected: list[tuple[Any, ...]]
) -> None:
    lift = SessionLift(STEP, 8, lambda: late_until_us)
    found = [slot[:4] for slot in lifted(lift, table_of(ROWS))]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_slots_contain_their_rows(shape: tuple[int, int, int]) -> None:
    length, every, offset = shape
    times_us = np.arange(-30, 60)
    positions, starts, ends = ClockSlots(length_us=length, every_us=every, offset_us=offset).assign(times_us)
    assert ((starts <= times_us[positions]) & (times_us[positions] < ends)).all()
    assert ((starts - offset) % every == 0).all()
    assert (ends - starts == length).all()
    expected = [sum(1 for _ in clock(*shape)(int(time))) for time in times_us]
    assert np.bincount(positions, minlength=len(times_us)).tolist() == expected
