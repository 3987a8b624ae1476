"""K-means with forgetting: a model of centres and weights, moved by batches of points. Pure numpy.

A batch assigns its points to the nearest centres. Each centre becomes the mean of its points and of itself with its
weight, which was multiplied by the decay before. A cluster that has almost no weight left is replaced by one half of
the heaviest cluster. These are the rules of Spark's streaming k-means.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headrace.operators.folds import Floats
from headrace.operators.state.ids import Ints

DYING_SHARE = 1e-8
"""A cluster with less than this share of the weight of the heaviest one is dying."""

SPLIT_DISTANCE = 1e-14
"""The relative distance of the two halves of a split cluster: the next points separate them."""

FIRST_PASSES = 10
"""The passes over the first batch. Its centres are chosen from its points, and one pass would leave them near these."""

SEED = 8
"""The choice of the first centres depends on this seed and the points only, so that a batch can run again."""

DISTANCES_PER_BLOCK = 4_000_000
"""Distances are computed in blocks of 32 MB: those of a million points to 10,000 centres would take 80 GB."""

Matrix = npt.NDArray[np.float64]


class Clusters(Struct, frozen=True):
    centres: Matrix
    weights: Floats

    @classmethod
    def none(cls, dimensions: int) -> Clusters:
        return cls(np.empty((0, dimensions)), np.empty(0))

    def __len__(self) -> int:
        return len(self.weights)


def moved(model: Clusters, points: Matrix, weights: Floats, *, k: int, decay: float) -> Clusters:
    """The model after a batch of points, of which there is at least one. Points have a weight of 1, or less for older
    ones. The model has fewer than k clusters as long as there were fewer than k distinct points."""
    order = np.lexsort((weights, *points.T[::-1]))
    points, weights = points[order], weights[order]
    is_first = len(model) == 0
    if len(model) < k:
        added = _chosen(model.centres, points, k - len(model))
        model = Clusters(np.vstack([model.centres, added]), np.append(model.weights, np.zeros(len(added))))
    if is_first:
        for _ in range(FIRST_PASSES):
            centres, _ = _means(Clusters(model.centres, np.zeros(len(model))), points, weights)
            if np.array_equal(centres, model.centres):
                break
            model = Clusters(centres, model.weights)
    decayed = Clusters(model.centres, model.weights * decay)
    return _with_dying_replaced(Clusters(*_means(decayed, points, weights)))


def nearest(centres: Matrix, points: Matrix) -> Ints:
    """The number of the nearest centre of each point; of two at the same distance, the first."""
    return np.concatenate([_distances(centres, block).argmin(axis=1) for block in _blocks(centres, points)])


def _blocks(centres: Matrix, points: Matrix) -> list[Matrix]:
    size = max(1, DISTANCES_PER_BLOCK // len(centres))
    return [points[start : start + size] for start in range(0, len(points), size)]


def _distances(centres: Matrix, points: Matrix) -> Matrix:
    """Squared distances. Differences are exact for points near a centre, unlike the expanded form of the square."""
    found = np.zeros((len(points), len(centres)))
    for dimension in range(points.shape[1]):
        found += (points[:, dimension, None] - centres[None, :, dimension]) ** 2
    return found


def _means(model: Clusters, points: Matrix, weights: Floats) -> tuple[Matrix, Floats]:
    """The centres and weights with the points. A cluster without points and weight keeps its centre."""
    clusters = nearest(model.centres, points)
    new = np.bincount(clusters, weights, minlength=len(model))
    total = model.weights + new
    # The mean moves by a share of the difference, so that no sum overflows and equal points stay exact.
    moves = np.column_stack(
        [
            np.bincount(clusters, weights * (of_points - of_centres[clusters]), minlength=len(model))
            for of_points, of_centres in zip(points.T, model.centres.T, strict=True)
        ]
    )
    return model.centres + moves / np.where(total > 0, total, 1)[:, None], total


def _chosen(centres: Matrix, points: Matrix, count: int) -> Matrix:
    """Up to `count` of the points as further centres: at random, distant ones rather than near ones (k-means++)."""
    random = np.random.default_rng(SEED)
    candidates = np.unique(points, axis=0)
    distances = np.full(len(candidates), np.inf)
    if len(centres):
        blocks = _blocks(centres, candidates)
        distances = np.concatenate([_distances(centres, block).min(axis=1) for block in blocks])
    chosen: list[int] = []
    while len(chosen) < count and distances.max() > 0:
        if np.isinf(distances).any():
            picked = int(random.choice(np.flatnonzero(np.isinf(distances))))
        else:
            shares = distances / distances.max()
            picked = int(random.choice(len(candidates), p=shares / shares.sum()))
        chosen.append(picked)
        distances = np.minimum(distances, _distances(candidates[[picked]], candidates)[:, 0])
    return candidates[chosen]


def _with_dying_replaced(model: Clusters) -> Clusters:
    if len(model) < 2:
        return model
    heaviest, lightest = int(model.weights.argmax()), int(model.weights.argmin())
    if model.weights[lightest] >= DYING_SHARE * model.weights[heaviest]:
        return model
    centres, weights = model.centres.copy(), model.weights.copy()
    weights[[heaviest, lightest]] = (weights[heaviest] + weights[lightest]) / 2
    step = SPLIT_DISTANCE * np.maximum(np.abs(centres[heaviest]), 1)
    centres[lightest] = centres[heaviest] - step
    centres[heaviest] += step
    return Clusters(centres, weights)
