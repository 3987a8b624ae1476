"""Ids: 104 bits of two hashes as one number, and searches in sorted arrays of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.state.ids import contains, distinct, ids_of, is_first, mixed, ranges, segment_starts

hashes = st.integers(0, 2**64 - 1)


@settings(max_examples=40)
@given(st.lists(st.tuples(hashes, hashes), max_size=20))
def test_ids_keep_the_first_52_bits_of_both_hashes_and_sort_by_them(pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array([pair[place] for pair in pairs], dtype=np.uint64) for place in (0, 1))
    ids = ids_of(first, second)
    expected = [(one >> 12, other >> 12) for one, other in pairs]
    assert [(int(each.real), int(each.imag)) for each in ids] == expected
    assert [(int(each.real), int(each.imag)) for each in np.sort(ids)] == sorted(expected)


def test_a_mixed_hash_depends_on_the_hash_and_on_the_number() -> None:
    keys = np.repeat(np.arange(100, dtype=np.uint64), 100)
    numbers = np.tile(np.arange(-50, 50, dtype=np.int64), 100)
    mixes = mixed(keys, numbers)
    assert len(np.unique(mixes)) == len(mixes)
    assert (mixed(keys, numbers) == mixes).all()


@pytest.mark.parametrize(
    ("columns", "starts"),
    [
        (([],), []),
        (([7],), [0]),
        (([1, 1, 2, 2, 2, 3],), [0, 2, 5]),
        (([1, 1, 1, 2], ["a", "a", "b", "b"]), [0, 2, 3]),
    ],
)
def test_a_segment_starts_where_any_column_changes(
    columns: tuple[list[object], ...], starts: list[int]
) -> None:
    arrays = [np.array(each) for each in columns]
    assert segment_starts(*arrays).tolist() == starts
    assert np.flatnonzero(is_first(*arrays)).tolist() == starts


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=10))
def test_ranges_are_concatenated(bounds: list[tuple[int, int]]) -> None:
    first = np.array([start for start, _ in bounds], dtype=np.int64)
    end = np.array([start + length for start, length in bounds], dtype=np.int64)
    expected = [each for start, length in bounds for each in range(start, start + length)]
    assert ranges(first, end).tolist() == expected


@settings(max_examples=40)
@given(st.sets(st.integers(0, 20)), st.lists(st.integers(0, 25)))
def test_contains_finds_exactly_the_ids_that_are_there(there: set[int], wanted: list[int]) -> None:
    sorted_ids = np.array(sorted(there), dtype=np.complex128)
    found = contains(sorted_ids, np.array(wanted, dtype=np.complex128))
    assert found.tolist() == [each in there for each in wanted]


@settings(max_examples=40)
@given(st.lists(st.integers(-3, 3)))
def test_distinct_values_are_sorted_and_there_once(values: list[int]) -> None:
    assert distinct(np.array(values, dtype=np.int64)).tolist() == sorted(set(values))
    as_ids = np.array([complex(value, -value) for value in values], dtype=np.complex128)
    assert distinct(as_ids).tolist() == [complex(value, -value) for value in sorted(set(values))]
