"""Keys that were seen before are always found; new keys are mistaken for them at the promised rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.approximation.bloom_step import BLOCK_BYTES, BloomSize, BloomStep, bloom_size
from headrace.operators.approximation.rows_with_keys import lift_first_rows, lift_rows
from headrace.operators.state.run import Run
from headrace.operators.state.step import advance
from headrace.operators.state.table import StateTable
from tests.operators.step_times import step_time
from tests.operators.tables.changelogs import hash_columns

COLUMNS = [pa.field("key", pa.int64()), pa.field("row", pa.int64())]


class Filter:
    def __init__(self, size: BloomSize, seen: str | None = "seen") -> None:
        self.step = BloomStep(columns=COLUMNS, seen=seen, size=size)
        self.lift = lift_rows if seen else lift_first_rows
        self.table = StateTable(self.step.state_schema)

    def work(self, hashes: dict[str, pa.Array], keys: Sequence[int]) -> list[tuple[object, ...]]:
        numbers = pa.array(np.arange(len(keys)))
        rows = pa.table({**hashes, "c0": pa.array(keys, pa.int64()), "c1": numbers})
        advanced = advance(self.step, self.table, self.lift(rows)[0], step_time(-1))
        runs = [Run.decode(run.encode(), name=run.name) for run in advanced.table.runs]
        self.table = StateTable(self.step.state_schema, runs)
        return [tuple(row.values()) for row in advanced.result.output.to_pylist()]


@given(st.lists(st.lists(st.integers(0, 60), max_size=20), min_size=1, max_size=5))
def test_key_that_was_seen_is_always_found(batches: list[list[int]]) -> None:
    filtered = Filter(BloomSize(2, 3))
    before: set[int] = set()
    for batch in batches:
        found = filtered.work(hash_columns("h", batch), batch)
        assert [key for key, _, _ in found] == batch
        for key in before & set(batch):
            assert all(seen for each, _, seen in found if each == key)
        for key in set(batch) - before:
            repeats = [seen for each, _, seen in found if each == key]
            assert repeats.count(False) <= 1
        before |= set(batch)


def test_rows_of_a_key_that_was_seen_are_dropped() -> None:
    filtered = Filter(bloom_size(1_000, 0.001), seen=None)
    assert filtered.work(hash_columns("h", [1, 2, 1]), [1, 2, 1]) == [(1, 0), (2, 1)]
    assert filtered.work(hash_columns("h", [2, 3]), [2, 3]) == [(3, 1)]


def random_hashes(random: np.random.Generator, count: int) -> dict[str, pa.Array]:
    return {name: pa.array(random.integers(-(2**63), 2**63 - 1, count)) for name in ("h1", "h2")}


def test_false_positives_are_at_the_promised_rate_and_the_size_is_fixed() -> None:
    random = np.random.default_rng(2)
    keys = 50_000
    for error in (0.05, 0.01, 0.001):
        filtered = Filter(bloom_size(keys, error))
        for _ in range(5):
            filtered.work(random_hashes(random, keys // 5), range(keys // 5))
        found = filtered.work(random_hashes(random, 20_000), range(20_000))
        wrong = sum(bool(seen) for *_, seen in found)
        # Three standard deviations of a count with that mean.
        assert wrong <= 20_000 * error + 3 * (20_000 * error) ** 0.5
        assert wrong > 0
        assert filtered.table.all_rows().num_rows <= bloom_size(keys, error).blocks
    assert bloom_size(1_000_000, 0.01).blocks * BLOCK_BYTES < 1_400_000
