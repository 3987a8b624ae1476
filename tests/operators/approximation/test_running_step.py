"""Aggregates over all time, batch by batch, beside the same over all values at once; the state has a bound."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.approximation.running_step import RunningStep, TopStep
from headrace.operators.sketches import DistinctFold, PercentileFold, TopFold
from headrace.operators.state.step import advance
from headrace.operators.tables.group_step import TotalsLift, TotalsStep
from tests.operators.tables.changelogs import NOW, Bucket, hash_columns

KEYS = [pa.field("user", pa.string())]
RANDOM = np.random.default_rng(3)

events = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.sampled_from("xyz")), max_size=12)


def bucket(step: TotalsStep) -> Bucket:
    return Bucket(step, TotalsLift(step))


def input_of(keys: Any, *values: pa.Array) -> pa.Table:
    columns = {f"a{number}": each for number, each in enumerate(values)}
    ones = pa.array(np.ones(len(keys), dtype=np.int64))
    return pa.table({**hash_columns("h", keys), "weight": ones, "k0": pa.array(keys, pa.string()), **columns})


@given(st.lists(events, min_size=1, max_size=4))
def test_top_values_after_each_batch_are_those_of_all_rows(
    batches: list[list[tuple[str, str | None]]],
) -> None:
    top = bucket(TopStep(keys=KEYS, value="url", fold=TopFold(pa.string(), results=2)))
    seen: Counter[tuple[str, str]] = Counter()
    for batch in batches:
        top.work(input_of([user for user, _ in batch], pa.array([url for _, url in batch], pa.string())))
        top.restart()
        seen.update((user, url) for user, url in batch if url is not None)
        expected = {
            (user, rank, url, count)
            for user in "ab"
            for rank, (url, count) in enumerate(_most_common(seen, user)[:2], start=1)
        }
        assert set(top.view) == expected


def _most_common(seen: Counter[tuple[str, str]], user: str) -> list[tuple[str, int]]:
    own = [(url, count) for (of, url), count in seen.items() if of == user]
    return sorted(own, key=lambda each: (-each[1], each[0]))


def test_rank_that_does_not_change_is_not_emitted_again() -> None:
    top = bucket(TopStep(keys=KEYS, value="url", fold=TopFold(pa.string(), results=3)))
    top.work(input_of(["a"] * 5, pa.array(["x", "x", "x", "y", "z"])))
    assert top.work(input_of(["a"], pa.array(["y"]))) == [("a", 2, "y", 1, "-"), ("a", 2, "y", 2, "+")]


def test_sketches_over_all_time_are_within_their_error_in_a_state_of_fixed_size() -> None:
    folds = [("n", DistinctFold()), ("p", PercentileFold(0.9)), ("top", TopFold(pa.int64(), results=1))]
    running = bucket(RunningStep(keys=KEYS, folds=folds))
    values: list[Any] = []
    sizes = []
    for _ in range(20):
        hashes = RANDOM.integers(-(2**63), 2**63 - 1, 10_000)
        urls = RANDOM.zipf(1.5, 10_000).clip(max=2**31)
        numbers = RANDOM.lognormal(3, 1, 10_000)
        values.append((hashes, numbers, urls))
        rows = input_of(["a"] * 10_000, *map(pa.array, (hashes, numbers, urls)))
        running.table = advance(running.step, running.table, running.lift(rows)[0], NOW).table
        running.restart()
        sizes.append(running.table.all_rows().nbytes)
    ((_, distinct, percentile, top),) = [tuple(row) for row in _results(running)]
    assert distinct == pytest.approx(200_000, rel=3 * 0.022)
    exact = np.quantile(np.concatenate([each[1] for each in values]), 0.9)
    assert percentile == pytest.approx(exact, rel=0.008)
    counts = Counter(np.concatenate([each[2] for each in values]).tolist())
    assert counts[1] - 200_000 / 1_000 <= top[0]["count"] <= counts[1]
    assert max(sizes) <= 2_048 * 8 + 1_024 * 16 + 1_000 * 16 + 1_000


def _results(running: Bucket) -> list[Any]:
    before = running.table.all_rows()
    results = running.step._results(before)  # type: ignore[attr-defined]
    return list(zip(before.column("k0").to_pylist(), *(each.to_pylist() for each in results), strict=True))


def test_result_that_does_not_change_is_not_emitted() -> None:
    running = bucket(RunningStep(keys=KEYS, folds=[("n", DistinctFold())]))
    assert running.work(input_of(["a", "b"], pa.array([1, 2]))) == [("a", 1, "+"), ("b", 1, "+")]
    assert running.work(input_of(["a", "b"], pa.array([1, 3]))) == [("b", 1, "-"), ("b", 2, "+")]
    assert running.work(input_of([], pa.array([], pa.int64()))) == []
