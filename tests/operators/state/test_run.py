"""Runs: sorted rows of state, found by id, merged by age, and equal after encoding."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.state.ids import Ids
from headrace.operators.state.run import NEVER, Run, ids_column, ids_of_column, merge
from headrace.operators.state.table import state_schema

SCHEMA = state_schema([pa.field("due_us", pa.int64())])

contents = st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 50), max_size=3), max_size=6)
"""The times of each id; none for a deleted id."""


def ids_of(numbers: list[int]) -> Ids:
    return np.array([complex(number // 2, number % 2) for number in numbers], dtype=np.complex128)


def run_of(content: dict[int, list[int]]) -> Run:
    flat = [(number, time) for number, times in content.items() for time in times]
    rows = pa.table(
        [ids_column(ids_of([row[0] for row in flat])), pa.array([row[1] for row in flat], pa.int64())],
        schema=SCHEMA,
    )
    return Run.of(rows, ids_of([number for number, times in content.items() if not times]))


def content_of(run: Run) -> dict[complex, list[int]]:
    found: dict[complex, list[int]] = {each: [] for each in run.ids.tolist()}
    for each, time, is_deleted in zip(run.ids.tolist(), run.ints("due_us"), run.tombstones, strict=True):
        if not is_deleted:
            found[each].append(int(time))
    return {each: sorted(times) for each, times in found.items()}


def expected(content: dict[int, list[int]]) -> dict[complex, list[int]]:
    return {complex(number // 2, number % 2): sorted(times) for number, times in content.items()}


@settings(max_examples=40)
@given(contents)
def test_a_run_is_sorted_and_survives_encoding(content: dict[int, list[int]]) -> None:
    run = run_of(content)
    decoded = Run.decode(run.encode(), name=run.name)
    for each in (run, decoded):
        assert (np.sort(each.ids) == each.ids).all()
        assert content_of(each) == expected(content)
        assert each.tombstone_count == sum(not times for times in content.values())
    assert decoded.name == run.name


@settings(max_examples=40)
@given(contents, st.lists(st.integers(0, 12), unique=True))
def test_find_returns_all_live_rows_of_the_ids(content: dict[int, list[int]], wanted: list[int]) -> None:
    run = run_of(content)
    found, positions = run.find(ids_of(wanted))
    assert found.tolist() == [number in content for number in wanted]
    times = sorted(time for number in wanted for time in content.get(number, []))
    assert sorted(run.ints("due_us")[positions].tolist()) == times


@settings(max_examples=40)
@given(contents, st.integers(-1, 51))
def test_the_earliest_time_ignores_tombstones(content: dict[int, list[int]], after: int) -> None:
    run = run_of(content)
    times = [time for inside in content.values() for time in inside]
    assert run.earliest("due_us") == min(times, default=NEVER)
    later = [time for time in times if time > after]
    assert run.earliest_after("due_us", after) == min(later, default=NEVER)


@settings(max_examples=40)
@given(st.lists(contents, min_size=1, max_size=4), st.booleans())
def test_a_newer_run_replaces_all_rows_of_its_ids(parts: list[dict[int, list[int]]], is_oldest: bool) -> None:
    merged = merge([run_of(content) for content in parts], is_oldest=is_oldest)
    model: dict[int, list[int]] = {}
    for content in parts:
        model |= content
    if is_oldest:
        model = {number: times for number, times in model.items() if times}
    assert content_of(merged) == expected(model)


def test_each_run_has_a_name_of_its_own() -> None:
    assert run_of({1: [1]}).name != run_of({1: [1]}).name


@pytest.mark.parametrize("numbers", [[], [3], [5, 1, 4]])
def test_ids_survive_a_column_and_its_slices(numbers: list[int]) -> None:
    ids = ids_of(numbers)
    column = ids_column(ids)
    assert ids_of_column(column).tolist() == ids.tolist()
    assert ids_of_column(pa.chunked_array([column, column])).tolist() == [*ids.tolist(), *ids.tolist()]
    assert ids_of_column(column.slice(1)).tolist() == ids.tolist()[1:]
