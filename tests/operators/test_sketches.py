"""Sketches beside the exact result: exact for few values, within their error for many."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.folds import Columns, Fold
from headrace.operators.sketches import DistinctFold, PercentileFold, TopFold
from headrace.operators.state.run import decode_table, encode_table

words = st.lists(st.none() | st.sampled_from(["a", "b", "c", "d", "é", ""]), max_size=30)
numbers = st.lists(
    st.none() | st.integers(-5, 5).map(float) | st.floats(allow_nan=False, width=32) | st.just(math.inf),
    max_size=30,
)


def lifted(fold: Fold, values: Any, kind: pa.DataType) -> Columns:
    return fold.lift(pa.array(values, kind), np.zeros(len(values), dtype=np.int64))


def together(fold: Fold, parts: list[Columns]) -> Columns:
    """One state of several, each of which may have been stored."""
    names = [str(number) for number in range(len(fold.state))]
    schema = pa.schema(list(zip(names, fold.state, strict=True)))
    stored = [encode_table(pa.table(part, schema=schema)) for part in parts]
    table = pa.concat_tables([decode_table(each) for each in stored]).combine_chunks()
    columns = [column.chunk(0) for column in table.columns]
    return fold.merge(columns, np.array([0]))


def all_at_once(fold: Fold, values: Any, kind: pa.DataType) -> Columns:
    return fold.merge(lifted(fold, values, kind), np.array([0]))


def result(fold: Fold, columns: Columns) -> Any:
    return fold.result(columns).to_pylist()[0]


def split(values: list[Any], cuts: list[int]) -> list[list[Any]]:
    bounds = [0, *sorted(cut % (len(values) + 1) for cut in cuts), len(values)]
    return [values[start:end] for start, end in itertools.pairwise(bounds)]


def merged_in_parts(fold: Fold, values: list[Any], kind: pa.DataType, cuts: list[int]) -> Columns:
    """In parts: each part is merged by itself, and then into the state."""
    state = fold.empty(1)
    for part in split(values, cuts):
        if part:
            state = together(fold, [state, all_at_once(fold, part, kind)])
    return state


def exact_percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    return (
        low
        if low == high
        else (math.ceil(position) - position) * low + (position - math.floor(position)) * high
    )


@settings(max_examples=200)
@given(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=60),
    st.lists(st.integers(0, 60), max_size=4),
)
def test_a_distinct_count_does_not_depend_on_the_order_of_merging(
    values: list[int | None], cuts: list[int]
) -> None:
    small = DistinctFold(hashes_max=8)
    at_once, in_parts = (
        all_at_once(small, values, pa.int64()) if values else small.empty(1),
        merged_in_parts(small, values, pa.int64(), cuts),
    )
    assert at_once[0].to_pylist() == in_parts[0].to_pylist()
    there = {each for each in values if each is not None}
    assert at_once[0].to_pylist() == [sorted(there)[:8]]
    exact = DistinctFold()
    assert result(exact, merged_in_parts(exact, values, pa.int64(), cuts)) == len(there)


@pytest.mark.parametrize("count", [10, 2_047, 5_000, 100_000, 1_000_000])
def test_a_distinct_count_is_within_its_error(count: int) -> None:
    hashes = np.random.default_rng(count).integers(-(2**63), 2**63 - 1, count)
    fold = DistinctFold()
    counted = result(fold, all_at_once(fold, hashes, pa.int64()))
    if count < 2_048:
        assert counted == count
    else:
        assert abs(counted / count - 1) < 3 * 0.022


@settings(max_examples=300)
@given(numbers, st.lists(st.integers(0, 30), max_size=4), st.sampled_from([0.0, 0.25, 0.5, 0.95, 1.0]))
def test_a_percentile_of_few_values_is_exact(
    values: list[float | None], cuts: list[int], share: float
) -> None:
    fold = PercentileFold(share)
    there = [each for each in values if each is not None]
    found = result(fold, merged_in_parts(fold, values, pa.float64(), cuts))
    if not there:
        assert found is None
    else:
        expected = exact_percentile(there, share)
        assert found == expected or (math.isnan(found) and math.isnan(expected))


@settings(max_examples=200)
@given(numbers, st.lists(st.integers(0, 30), max_size=4), st.integers(2, 9))
def test_a_percentile_does_not_depend_on_the_order_of_merging(
    values: list[float | None], cuts: list[int], buckets_max: int
) -> None:
    fold = PercentileFold(0.5, buckets_max)
    at_once = all_at_once(fold, values, pa.float64()) if values else fold.empty(1)
    in_parts = merged_in_parts(fold, values, pa.float64(), cuts)
    assert [each.to_pylist() for each in at_once] == [each.to_pylist() for each in in_parts]
    assert len(at_once[1].flatten()) <= buckets_max


@pytest.mark.parametrize(
    ("decades", "error"),
    [(4.8, 0.008), (9, 0.016)],
)
def test_a_percentile_is_within_its_error(decades: float, error: float) -> None:
    random = np.random.default_rng(7)
    values = 10 ** random.uniform(0, decades, 300_000)
    for share in (0.01, 0.5, 0.95, 0.999):
        fold = PercentileFold(share)
        found = result(fold, all_at_once(fold, values, pa.float64()))
        assert abs(found / exact_percentile(list(values), share) - 1) <= error


def test_percentiles_handle_zeros_infinities_and_nan() -> None:
    fold = PercentileFold(0.5)
    many = [float(each) for each in range(1, 5_000)]
    assert result(fold, all_at_once(fold, [-each for each in many], pa.float64())) == pytest.approx(
        -2_500, rel=0.008
    )
    assert result(fold, all_at_once(fold, [0.0] * 6_000 + many, pa.float64())) == 0.0
    assert result(fold, all_at_once(fold, [math.inf] * 6_000 + many, pa.float64())) == math.inf
    assert result(fold, all_at_once(fold, [-math.inf] * 6_000 + many, pa.float64())) == -math.inf
    assert math.isnan(result(fold, all_at_once(fold, [math.nan] * 6_000 + many, pa.float64())))


@settings(max_examples=200)
@given(words, st.lists(st.integers(0, 30), max_size=4), st.integers(1, 4))
def test_the_most_frequent_of_few_values_are_exact(
    values: list[str | None], cuts: list[int], count: int
) -> None:
    fold = TopFold(pa.string(), results=count)
    found = result(fold, merged_in_parts(fold, values, pa.string(), cuts))
    counted = Counter(each for each in values if each is not None)
    expected = sorted(counted.items(), key=lambda each: (-each[1], each[0]))[:count]
    assert [(each["value"], each["count"]) for each in found] == expected


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 12).map(lambda n: n * n // 12), max_size=80),
    st.lists(st.integers(0, 80), max_size=5),
    st.integers(1, 6),
)
def test_counts_of_the_most_frequent_are_within_their_error(
    values: list[int], cuts: list[int], values_max: int
) -> None:
    fold = TopFold(pa.int64(), results=values_max, values_max=values_max)
    state = merged_in_parts(fold, values, pa.int64(), cuts)
    found = {each["value"]: each["count"] for each in result(fold, state)}
    assert len(found) <= values_max
    for each, count in Counter(values).items():
        assert count - len(values) / (values_max + 1) <= found.get(each, 0) <= count


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.bool_(), [True, False, True]),
        (pa.float64(), [0.0, -0.0, 1.5]),
        (pa.binary(), [b"x", b"y", b"x"]),
        (pa.timestamp("us", tz="UTC"), [5, 7, 5]),
        (pa.decimal128(30, 2), [1, 2, 1]),
    ],
)
def test_the_most_frequent_may_be_values_of_any_plain_type(kind: pa.DataType, values: list[Any]) -> None:
    fold = TopFold(kind, results=1)
    created = pa.array(values).cast(kind)
    columns = fold.merge(fold.lift(created, np.zeros(3, dtype=np.int64)), np.array([0]))
    assert fold.result(columns).to_pylist()[0] == [{"value": created[0].as_py(), "count": 2}]


@pytest.mark.parametrize("fold", [DistinctFold(), PercentileFold(0.5), TopFold(pa.int64(), results=3)])
def test_sketches_of_many_windows_are_merged_at_once(fold: Fold) -> None:
    random = np.random.default_rng(3)
    values, starts = random.integers(0, 50, 6_000), np.arange(0, 6_000, 3)
    columns = lifted(fold, values, pa.int64())
    merged = fold.result(fold.merge(columns, starts)).to_pylist()
    one_by_one = [
        result(fold, fold.merge([each.slice(start, 3) for each in columns], np.array([0])))
        for start in starts
    ]
    assert merged == one_by_one
    assert fold.result(fold.merge(fold.empty(0), np.array([], dtype=np.int64))).to_pylist() == []
