"""Folds beside plain Python: any split, any order of merging, groups side by side, nulls ignored."""

from __future__ import annotations

import math
import statistics
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import HeadraceError
from headrace.operators.folds import (
    CollectFold,
    Columns,
    CompletenessFold,
    CountDistinctFold,
    CountFold,
    DecimalMeanFold,
    DecimalSumFold,
    DeviationFold,
    EdgeFold,
    ExtremeFold,
    Fold,
    MeanFold,
    OriginalsFold,
    SumFold,
)

INTEGER = pa.int64()
Value = tuple[int, int | None]
"""A time and a value."""

groups = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(-4, 4)), min_size=1, max_size=6), max_size=4
)


def known(rows: list[Value]) -> list[int]:
    """The values in the order of their times, and of themselves."""
    return [value for _, value in sorted((time, value) for time, value in rows if value is not None)]


def deviation(values: list[int]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def decimal_mean(values: list[int]) -> Decimal | None:
    if not values:
        return None
    return (Decimal(sum(values)) / len(values)).quantize(Decimal("0.0001"), ROUND_HALF_UP)


EXPECTED: list[tuple[Fold, Any]] = [
    (CountFold(), len),
    (SumFold(INTEGER), lambda values: sum(values) if values else None),
    (SumFold(pa.float64()), lambda values: float(sum(values)) if values else None),
    (MeanFold(), lambda values: statistics.mean(values) if values else None),
    (MeanFold(INTEGER), lambda values: statistics.mean(values) if values else None),
    (DecimalSumFold(pa.decimal128(2, 0), is_strict=True), lambda values: sum(values) if values else None),
    (DecimalMeanFold(pa.decimal128(2, 0), is_strict=True), lambda values: decimal_mean(values)),
    (CountDistinctFold(INTEGER), lambda values: len(set(values))),
    (DeviationFold(), deviation),
    (ExtremeFold(INTEGER, greatest=False), lambda values: min(values, default=None)),
    (ExtremeFold(INTEGER, greatest=True), lambda values: max(values, default=None)),
    (EdgeFold(INTEGER, last=False), lambda values: values[0] if values else None),
    (EdgeFold(INTEGER, last=True), lambda values: values[-1] if values else None),
    (CollectFold(INTEGER, count_max=3), lambda values: values[:3]),
]


def rounded(results: list[Any]) -> list[Any]:
    """Without the last digits of floats, which depend on the order of addition."""
    return [round(each, 9) if isinstance(each, float) else each for each in results]


def lifted(fold: Fold, rows: list[Value]) -> Columns:
    times_us = np.array([time for time, _ in rows], dtype=np.int64)
    return fold.lift(pa.array([value for _, value in rows], INTEGER), times_us)


def joined(parts: list[Columns]) -> Columns:
    return [pa.concat_arrays(list(each)) for each in zip(*parts, strict=True)]


def starts_of(lists: list[list[Value]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    lengths = np.array([len(each) for each in lists], dtype=np.int64)
    return np.cumsum(lengths) - lengths


@pytest.mark.parametrize(
    ("fold", "of"), EXPECTED, ids=[f"{type(fold).__name__} {fold.result_type}" for fold, _ in EXPECTED]
)
@settings(max_examples=40)
@given(groups, st.integers(0, 6))
def test_the_result_does_not_depend_on_how_rows_are_merged(
    fold: Fold, of: Any, groups: list[list[Value]], cut: int
) -> None:
    rows = [row for group in groups for row in group]
    direct = fold.merge(lifted(fold, rows), starts_of(groups))
    expected = [of(known(group)) for group in groups]
    assert rounded(fold.result(direct).to_pylist()) == rounded(expected)
    for group, wanted in zip(groups, expected, strict=True):
        parts = [part for part in (group[cut:], group[:cut]) if part]
        states = [fold.empty(1), *(fold.merge(lifted(fold, part), np.array([0])) for part in parts)]
        merged = fold.merge(joined(states), np.array([0]))
        assert rounded(fold.result(merged).to_pylist()) == rounded([wanted])
        assert [each.type for each in merged] == list(fold.state)


@pytest.mark.parametrize("fold", [fold for fold, _ in EXPECTED] + [CompletenessFold(), OriginalsFold()])
def test_empty_states_have_the_types_of_the_state(fold: Fold) -> None:
    for count in (0, 3):
        empty = fold.empty(count)
        assert [(each.type, len(each)) for each in empty] == [(kind, count) for kind in fold.state]
        merged = fold.merge(empty, np.arange(count))
        assert [len(each) for each in merged] == [count] * len(empty)
        assert fold.result(merged).type == fold.result_type


def test_counts_of_rows_include_nulls() -> None:
    assert CountFold().lift(None, np.zeros(3, np.int64))[0].to_pylist() == [1, 1, 1]


def test_completeness_is_the_fraction_of_rows_that_were_not_late() -> None:
    fold = CompletenessFold()
    states = fold.lift(None, np.zeros(4, np.int64))
    late = fold.with_lateness(states, np.array([False, True, False, False]))
    merged = fold.merge(late, np.array([0]))
    assert fold.result(merged).to_pylist() == [0.75]
    assert fold.result(fold.empty(1)).to_pylist() == [None]


def test_completeness_counts_events_that_rows_report_as_missing() -> None:
    fold = CompletenessFold()
    kind = pa.struct([("received", pa.int64()), ("missing", pa.int64())])
    reports = pa.array([{"received": 1, "missing": 3}, {"received": 6, "missing": 0}], type=kind)
    in_time, late = (
        fold.with_lateness(fold.lift(reports, np.zeros(2, np.int64)), np.array(each))
        for each in ([False, False], [False, True])
    )
    assert fold.result(fold.merge(in_time, np.array([0]))).to_pylist() == [0.7]
    assert fold.result(fold.merge(late, np.array([0]))).to_pylist() == [0.1]


def test_original_rows_are_all_kept_in_their_group() -> None:
    fold = OriginalsFold()
    states = fold.lift(pa.array(["a", "b", "c"]), np.zeros(3, np.int64))
    assert fold.merge(states, np.array([0, 2]))[0].to_pylist() == [["a", "b"], ["c"]]


@pytest.mark.parametrize(("greatest", "expected"), [(True, math.nan), (False, 1.0)])
def test_nan_is_greater_than_all_other_values(greatest: bool, expected: float) -> None:
    fold = ExtremeFold(pa.float64(), greatest=greatest)
    merged = fold.merge([pa.array([2.0, math.nan, 1.0])], np.array([0]))
    assert merged[0].to_pylist() == pytest.approx([expected], nan_ok=True)


@pytest.mark.parametrize(("greatest", "expected"), [(True, "pear"), (False, "apple")])
def test_extremes_of_any_ordered_type(greatest: bool, expected: str) -> None:
    fold = ExtremeFold(pa.string(), greatest=greatest)
    merged = fold.merge([pa.array(["fig", None, "apple", "pear"])], np.array([0]))
    assert merged[0].to_pylist() == [expected]


def test_a_large_mean_does_not_change_the_deviation() -> None:
    fold = DeviationFold()
    values = pa.array([1e15 + each for each in (1.0, 2.0, 3.0, 4.0)])
    merged = fold.merge(fold.lift(values, np.zeros(4, np.int64)), np.array([0]))
    assert fold.result(merged).to_pylist() == pytest.approx([statistics.stdev([1, 2, 3, 4])])


def test_a_sum_of_integers_that_does_not_fit_is_an_error() -> None:
    fold = SumFold(INTEGER)
    states = fold.lift(pa.array([2**62, 2**62]), np.zeros(2, np.int64))
    with pytest.raises(HeadraceError, match="does not fit in 64 bits") as rejected:
        fold.merge(states, np.array([0]))
    assert "double" in rejected.value.hint


@pytest.mark.parametrize("create", [DecimalSumFold, DecimalMeanFold])
def test_decimals_that_do_not_fit_are_null_or_an_error(create: Any) -> None:
    """A sum that does not fit on the way to the result does not matter."""
    kind = pa.decimal128(38, 2)
    greatest, least = (Decimal(sign + "9" * 36 + ".99") for sign in ("", "-"))
    values = pa.array([greatest, greatest, Decimal("1.00"), greatest, greatest, least, least], kind)
    starts = np.array([0, 2, 3])
    fold = create(kind, is_strict=False)
    merged = fold.merge(fold.lift(values, np.zeros(7, np.int64)), starts)
    assert fold.result(merged).to_pylist() == [None, Decimal("1.00"), Decimal(0)]
    strict = create(kind, is_strict=True)
    assert strict.result([each[1:] for each in merged]).to_pylist() == [Decimal("1.00"), Decimal(0)]
    with pytest.raises(HeadraceError, match="does not fit in decimal128") as rejected:
        strict.result(merged)
    assert "cast" in rejected.value.hint
