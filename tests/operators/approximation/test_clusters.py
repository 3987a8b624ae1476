"""K-means with forgetting: the rules, and centres of known clusters."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.approximation.clusters import DYING_SHARE, Clusters, moved, nearest

RANDOM = np.random.default_rng(6)


def ones(points: np.ndarray) -> np.ndarray:
    return np.ones(len(points))


def test_centres_of_separate_clusters_are_found() -> None:
    truth = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    model = Clusters.none(2)
    for _ in range(5):
        points = truth[RANDOM.integers(0, 4, 400)] + RANDOM.normal(0, 0.5, (400, 2))
        model = moved(model, points, ones(points), k=4, decay=1.0)
    found = model.centres[nearest(model.centres, truth)]
    assert np.abs(found - truth).max() < 0.2
    assert model.weights.sum() == pytest.approx(2_000)


def test_model_follows_clusters_that_move_because_it_forgets() -> None:
    model = Clusters.none(1)
    for shift in range(30):
        points = np.concatenate([RANDOM.normal(shift, 0.1, (50, 1)), RANDOM.normal(-100, 0.1, (50, 1))])
        model = moved(model, points, ones(points), k=2, decay=0.25)
    assert sorted(model.centres[:, 0]) == pytest.approx([-100, 29], abs=0.5)


def test_decay_is_that_of_the_weights() -> None:
    model = Clusters(np.array([[0.0]]), np.array([4.0]))
    after = moved(model, np.array([[6.0]]), np.ones(1), k=1, decay=0.5)
    assert (after.centres.tolist(), after.weights.tolist()) == ([[2.0]], [3.0])


def test_cluster_without_points_keeps_its_centre() -> None:
    model = Clusters(np.array([[0.0], [100.0]]), np.array([1.0, 1.0]))
    after = moved(model, np.array([[1.0]]), np.ones(1), k=2, decay=0.5)
    assert after.centres[1].tolist() == [100.0]
    assert after.weights.tolist() == [1.5, 0.5]


def test_dying_cluster_is_replaced_by_one_half_of_the_heaviest() -> None:
    model = Clusters(np.array([[5.0], [100.0]]), np.array([10.0, DYING_SHARE]))
    points = np.full((10, 1), 5.0)
    after = moved(model, points, ones(points), k=2, decay=0.5)
    assert after.weights.tolist() == pytest.approx([7.5, 7.5])
    assert after.centres[:, 0] == pytest.approx([5.0, 5.0])
    assert after.centres[0, 0] != after.centres[1, 0]
    split = np.array([[4.0], [6.0]] * 20)
    assert sorted(moved(after, split, ones(split), k=2, decay=0.0).centres[:, 0]) == [4.0, 6.0]


@given(st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=8), min_size=1, max_size=4))
def test_with_more_clusters_than_points_every_distinct_point_is_a_cluster(batches: list[list[int]]) -> None:
    model = Clusters.none(1)
    for batch in batches:
        points = np.array(batch, dtype=np.float64)[:, None]
        model = moved(model, points, ones(points), k=10, decay=1.0)
    together = [each for batch in batches for each in batch]
    found = dict(zip(model.centres[:, 0].tolist(), model.weights.tolist(), strict=True))
    assert found == {float(each): together.count(each) for each in set(together)}


def test_order_of_points_does_not_matter() -> None:
    points = RANDOM.normal(0, 1, (300, 3))
    shuffled = points[RANDOM.permutation(300)]
    one, other = (moved(Clusters.none(3), each, ones(each), k=5, decay=1.0) for each in (points, shuffled))
    assert np.array_equal(one.centres, other.centres)


def test_very_large_features_do_not_overflow() -> None:
    points = np.array([[1e150, -1e150], [-1e150, 1e150], [0.0, 0.0]])
    model = moved(Clusters.none(2), points, ones(points), k=2, decay=1.0)
    assert np.isfinite(model.centres).all()
    assert model.weights.sum() == 3


def test_memory_is_bounded_for_many_points_and_centres() -> None:
    centres = RANDOM.normal(0, 1, (2_000, 2))
    points = RANDOM.normal(0, 1, (20_000, 2))
    model = Clusters(centres, np.ones(len(centres)))
    expected = [((points[at] - centres) ** 2).sum(axis=1).argmin() for at in range(0, 20_000, 500)]
    tracemalloc.start()
    try:
        assert nearest(centres, points)[::500].tolist() == expected
        moved(model, points, ones(points), k=2_001, decay=1.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(points) * len(centres), "all distances at once take twice as much"
