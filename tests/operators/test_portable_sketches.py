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
from headrace.operators.portable_sketches import DigestFold, FrequentFold, ThetaFold, theta_hashes

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


def test_sketch_without_values_is_an_empty_sketch() -> None:
    assert theta([]).is_empty()
    assert theta([None]).is_empty()
    assert datasketches.tdigest_double.deserialize(encoded(DigestFold(), [], kind=pa.float64())).is_empty()
    assert frequent([]).is_empty()
