"""Sketches as bytes, read by DataSketches: the same values, exact for few and within their error for many."""

from __future__ import annotations

from collections import Counter
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.folds import Fold
from headrace.operators.portable_sketches import (
    CountMinFold,
    DigestFold,
    FrequentFold,
    HllFold,
    ThetaFold,
    theta_hashes,
)

TIMES = np.zeros(0, dtype=np.int64)
RANDOM = np.random.default_rng(15)


def encoded(fold: Fold, *parts: Any, kind: pa.DataType) -> bytes:
    """The sketch of values that arrive in parts, each merged by itself."""
    state = fold.empty(1)
    for part in parts:
        lifted = fold.merge(fold.lift(pa.array(part, kind), TIMES), np.array([0])) if len(part) else []
        if lifted:
            both = [pa.concat_arrays(each) for each in zip(state, lifted, strict=True)]
            state = fold.merge(both, np.array([0]))
    content: bytes = fold.result(state).to_pylist()[0]
    return content


def theta(*parts: Any, **more: Any) -> Any:
    return datasketches.compact_theta_sketch.deserialize(encoded(ThetaFold(**more), *parts, kind=pa.int64()))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_theta_sketch_of_few_values_has_the_hashes_of_datasketches(values: list[int]) -> None:
    expected = datasketches.update_theta_sketch()
    for each in values:
        expected.update(each)
    assert sorted(theta(values)) == sorted(expected.compact())
    assert theta(values).get_estimate() == len(set(values))


def test_theta_sketch_of_many_values_is_within_its_error_and_merges() -> None:
    first, second = (RANDOM.integers(-(2**63), 2**63 - 1, 100_000) for _ in range(2))
    union = datasketches.theta_union(lg_k=12)
    for each in (theta(first[:50_000], first[40_000:]), theta(first, second)):
        union.update(each)
    merged = union.get_result()
    # Three times the standard error of 1.6 %.
    assert theta(first[:50_000], first[40_000:]).get_estimate() == pytest.approx(100_000, rel=0.05)
    assert merged.get_estimate() == pytest.approx(200_000, rel=0.05)
    assert merged.get_lower_bound(3) <= 200_000 <= merged.get_upper_bound(3)


def test_estimates_of_theta_sketches_have_the_documented_standard_error() -> None:
    errors = [
        theta(RANDOM.integers(-(2**63), 2**63 - 1, 20_000), entries_max=512).get_estimate() / 20_000 - 1
        for _ in range(200)
    ]
    assert np.std(errors) == pytest.approx(1 / np.sqrt(512), rel=0.2)
    assert abs(np.mean(errors)) < 3 / np.sqrt(512) / np.sqrt(200)


def test_theta_hash_is_never_zero_for_the_numbers_around_zero() -> None:
    assert (theta_hashes(np.arange(-1000, 1000).view(np.uint64)) > 0).all()


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=50), st.integers(0, 50))
def test_tdigest_has_the_count_and_the_extremes_of_its_values(values: list[float], cut: int) -> None:
    content = encoded(DigestFold(), values[:cut], values[cut:], kind=pa.float64())
    digest = datasketches.tdigest_double.deserialize(content)
    assert digest.get_total_weight() == len(values)
    assert (digest.get_min_value(), digest.get_max_value()) == (min(values), max(values))


def test_tdigest_of_many_values_is_within_its_error_and_merges() -> None:
    halves = [RANDOM.lognormal(3, 1, 50_000) for _ in range(2)]
    digests = [
        datasketches.tdigest_double.deserialize(encoded(DigestFold(), half, kind=pa.float64()))
        for half in halves
    ]
    digests[0].merge(digests[1])
    values = np.concatenate(halves)
    for share in (0.01, 0.5, 0.95, 0.99):
        assert digests[0].get_quantile(share) == pytest.approx(np.quantile(values, share), rel=0.02)


def test_values_that_are_not_finite_are_not_in_a_tdigest() -> None:
    content = encoded(DigestFold(), [1.0, np.nan, np.inf, None, -np.inf, 2.0], kind=pa.float64())
    assert datasketches.tdigest_double.deserialize(content).get_total_weight() == 2


def frequent(*parts: Any, **more: Any) -> Any:
    return datasketches.frequent_strings_sketch.deserialize(
        encoded(FrequentFold(**more), *parts, kind=pa.string())
    )


@given(st.lists(st.none() | st.sampled_from(["a", "é", "", "long" * 9]), max_size=40), st.integers(0, 40))
def test_frequent_sketch_of_few_values_is_exact(values: list[str | None], cut: int) -> None:
    sketch = frequent(values[:cut], values[cut:])
    counts = Counter(each for each in values if each is not None)
    assert sketch.total_weight == counts.total()
    assert {each: sketch.get_estimate(each) for each in counts} == counts
    assert sketch.get_epsilon_for_lg_size(11) > 0


def test_bounds_of_frequent_sketch_include_the_exact_count_of_every_value() -> None:
    values = [str(each) for each in RANDOM.zipf(1.3, 100_000)]
    exact = Counter(values)
    sketch = frequent(values[:30_000], values[30_000:], lg_max=6)
    assert sketch.total_weight == len(values)
    for value, count in exact.most_common(2_000):
        assert sketch.get_lower_bound(value) <= count <= sketch.get_upper_bound(value)
    # 48 counters: an error of at most a 48th of the rows.
    assert sketch.get_upper_bound("no such value") <= len(values) / 48


def hll(*parts: Any, **more: Any) -> Any:
    return datasketches.hll_sketch.deserialize(encoded(HllFold(**more), *parts, kind=pa.int64()))


@given(st.sets(st.integers(-(2**63), 2**63 - 1), max_size=500), st.integers(0, 500))
def test_hll_sketch_has_the_coupons_or_registers_of_datasketches(values: set[int], cut: int) -> None:
    listed = list(values)
    expected = datasketches.hll_union(12)
    one = datasketches.hll_sketch(12, datasketches.HLL_8)
    for each in listed:
        one.update(each)
    expected.update(one)
    found = hll(listed[:cut], listed[cut:], listed[:7])
    assert found.get_estimate() == pytest.approx(expected.get_result(datasketches.HLL_8).get_estimate())
    assert (found.lg_config_k, found.tgt_type, found.is_empty()) == (12, datasketches.HLL_8, not values)


@pytest.mark.parametrize("count", [8, 24, 25, 192, 193, 384])
def test_hll_sketch_of_few_values_is_a_set_as_large_as_that_of_datasketches(count: int) -> None:
    expected = datasketches.hll_sketch(12, datasketches.HLL_8)
    for value in range(count):
        expected.update(value)
    content = encoded(HllFold(), list(range(count)), kind=pa.int64())
    theirs = expected.serialize_compact()
    assert (content[:12], len(content)) == (theirs[:12], len(theirs))
    coupons, expected_coupons = (np.frombuffer(each[12:], "<u4") for each in (content, theirs))
    assert sorted(coupons) == sorted(expected_coupons)


def test_hll_sketch_of_many_values_is_the_same_however_they_are_merged() -> None:
    values = RANDOM.integers(-(2**63), 2**63 - 1, 20_000)
    whole = encoded(HllFold(), values, kind=pa.int64())
    assert encoded(HllFold(), *np.array_split(values[::-1], 200), kind=pa.int64()) == whole
    few = values[:380]
    assert encoded(HllFold(), few[:100], few, kind=pa.int64()) == encoded(
        HllFold(), few[::-1], kind=pa.int64()
    )


def test_hll_sketches_merge_with_those_of_datasketches() -> None:
    first, second = (RANDOM.integers(-(2**63), 2**63 - 1, 50_000) for _ in range(2))
    theirs = datasketches.hll_sketch(12, datasketches.HLL_4)
    for each in first.tolist():
        theirs.update(each)
    union = datasketches.hll_union(12)
    for sketch in (hll(first), hll(second), theirs, hll(second[:5])):
        union.update(sketch)
    merged = union.get_result()
    assert merged.get_estimate() == pytest.approx(100_000, rel=0.05)
    assert merged.get_lower_bound(3) <= 100_000 <= merged.get_upper_bound(3)


@pytest.mark.parametrize("count", [1, 24, 25, 383, 384, 385])
def test_hll_sketch_may_be_updated_further_by_datasketches(count: int) -> None:
    values = list(range(20_000))
    sketch, expected = hll(values[:count]), datasketches.hll_sketch(12, datasketches.HLL_8)
    for value in values[count:]:
        sketch.update(value)
    for value in values:
        expected.update(value)
    assert sketch.get_estimate() == pytest.approx(20_000, rel=0.05)
    assert sketch.get_updatable_serialization_bytes() == expected.get_updatable_serialization_bytes()


def test_estimates_of_hll_sketches_have_the_documented_standard_error() -> None:
    errors = [
        hll(RANDOM.integers(-(2**63), 2**63 - 1, 10_000), lg_registers=8).get_estimate() / 10_000 - 1
        for _ in range(200)
    ]
    assert np.std(errors) == pytest.approx(1.04 / np.sqrt(256), rel=0.2)
    assert abs(np.mean(errors)) < 3 * 1.04 / np.sqrt(256) / np.sqrt(200)


def count_min(*parts: Any, kind: pa.DataType, **more: Any) -> Any:
    return datasketches.count_min_sketch.deserialize(encoded(CountMinFold(**more), *parts, kind=kind))


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=40), st.integers(0, 40))
def test_count_min_sketch_has_the_cells_of_datasketches(values: list[int | None], cut: int) -> None:
    for kind, given_values in (
        (pa.int64(), values),
        (pa.string(), [None if each is None else str(each) for each in values]),
    ):
        expected = datasketches.count_min_sketch(5, 2_719)
        for each in given_values:
            if each is not None:
                expected.update(each)
        content = encoded(CountMinFold(), given_values[:cut], given_values[cut:], kind=kind)
        assert content == expected.serialize()


def test_empty_text_is_not_counted_as_in_datasketches() -> None:
    assert count_min(["", "a", "", "a"], kind=pa.string()).total_weight == 2


def test_count_min_sketches_merge_and_have_the_documented_error() -> None:
    values = RANDOM.zipf(1.2, 200_000) % 100_000
    exact = Counter(values.tolist())
    sketch = count_min(values[:120_000], kind=pa.int64(), width=100)
    sketch.merge(count_min(values[120_000:], kind=pa.int64(), width=100))
    errors = np.array([sketch.get_estimate(value) - count for value, count in exact.items()])
    assert sketch.get_relative_error() == pytest.approx(np.e / 100)
    assert errors.min() >= 0
    # The bound holds for a value with a probability of 99 %.
    assert (errors <= np.e / 100 * len(values)).mean() > 0.99
    assert errors.max() > 0, "the test shows nothing if no two values share a cell"


def test_sketch_without_values_is_an_empty_sketch() -> None:
    assert theta([]).is_empty()
    assert theta([None]).is_empty()
    assert datasketches.tdigest_double.deserialize(encoded(DigestFold(), [], kind=pa.float64())).is_empty()
    assert frequent([]).is_empty()
    assert hll([]).is_empty()
    assert hll([None]).is_empty()
    assert count_min([None], kind=pa.int64()).is_empty()
    assert count_min([], kind=pa.string()).is_empty()
