"""The step of k-means: a model per key, decay by time, points or batches, and what is emitted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.approximation.kmeans_step import Forgetting, KMeansStep, PointLift
from headrace.operators.state.step import advance
from tests.operators.tables.changelogs import NOW, Bucket, hash_columns

Event = tuple[str, float, float]
"""(user, seconds, feature)"""


class Model(Bucket):
    def __init__(self, k: int, forgetting: Forgetting | None = None) -> None:
        keys = [pa.field("user", pa.string())]
        step = KMeansStep(keys=keys, features=1, k=k, forgetting=forgetting or Forgetting())
        super().__init__(step, PointLift(step))
        self.clusters: dict[tuple[str, int], tuple[float, float]] = {}
        """Centre and weight by user and cluster, from the changelog."""

    def send(self, *events: Event) -> None:
        users, seconds, features = (
            (list(each) for each in zip(*events, strict=True)) if events else ([], [], [])
        )
        rows = pa.table(
            {
                **hash_columns("h", users),
                "k0": pa.array(users, pa.string()),
                "time": pa.array([int(each * 1e6) for each in seconds], pa.int64()),
                "a0": pa.array(features, pa.float64()),
            }
        )
        advanced = advance(self.step, self.table, self.lift(rows)[0], NOW)
        self.table = advanced.table
        for row in advanced.result.output.to_pylist():
            place, cluster = (row["user"], row["cluster"]), (row["centre"][0], row["weight"])
            if row["op"] == "-":
                assert self.clusters.pop(place) == cluster
            else:
                assert place not in self.clusters
                self.clusters[place] = cluster


def values(events: Sequence[Event], user: str) -> list[float]:
    return [feature for each, _, feature in events if each == user]


events = st.lists(
    st.tuples(st.sampled_from("ab"), st.just(0.0), st.integers(0, 5).map(float)), min_size=1, max_size=8
)


@given(st.lists(events, min_size=1, max_size=4))
def test_each_key_has_its_own_model_that_survives_restarts(batches: list[list[Event]]) -> None:
    model = Model(k=10)
    so_far: list[Event] = []
    for batch in batches:
        model.send(*batch)
        model.restart()
        so_far += batch
        for user in "ab":
            own = values(so_far, user)
            found = {centre: weight for (of, _), (centre, weight) in model.clusters.items() if of == user}
            assert found == {each: own.count(each) for each in set(own)}


def test_batch_without_points_changes_nothing() -> None:
    model = Model(k=1, forgetting=Forgetting(half_life_batches=1))
    model.send(("a", 0, 1.0))
    before = dict(model.clusters)
    model.send()
    assert model.clusters == before


def test_weight_halves_after_the_half_life_in_event_time_for_the_model_and_for_old_points() -> None:
    model = Model(k=1, forgetting=Forgetting(half_life_us=10_000_000))
    model.send(("a", 0, 0.0), ("a", 10, 0.0))
    assert model.clusters == {("a", 0): (0.0, 1.5)}
    model.send(("a", 20, 0.0))
    assert model.clusters == {("a", 0): (0.0, 1.75)}
    model.send(("a", 10, 0.0))
    assert model.clusters == {("a", 0): (0.0, 2.25)}


@pytest.mark.parametrize(
    ("forgetting", "weight"),
    [
        (Forgetting(), 8.0),
        (Forgetting(half_life_batches=1), 6.0),
        (Forgetting(half_life_points=2), 5.0),
    ],
)
def test_decay_is_per_batch_or_per_point(forgetting: Forgetting, weight: float) -> None:
    model = Model(k=1, forgetting=forgetting)
    for _ in range(2):
        model.send(*[("a", 0, 3.0)] * 4)
    assert model.clusters == {("a", 0): (3.0, weight)}


def test_model_by_time_hardly_depends_on_how_points_are_cut_into_batches() -> None:
    random = np.random.default_rng(4)
    points = [("a", float(n), float(random.normal(10 * (n % 2), 0.1))) for n in range(200)]
    models = []
    for size in (10, 50, 200):
        model = Model(k=2, forgetting=Forgetting(half_life_us=50_000_000))
        for start in range(0, 200, size):
            model.send(*points[start : start + size])
        models.append(sorted(model.clusters.values()))
    for other in models[1:]:
        assert np.array(other) == pytest.approx(np.array(models[0]), abs=1e-6)
