"""Estimated frequencies beside exact ones: never too low, and rarely higher than the bound."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.approximation.count_min_step import CountMinStep, depth_for, width_for
from headrace.operators.approximation.rows_with_keys import lift_rows
from headrace.operators.state.run import Run
from headrace.operators.state.step import advance
from headrace.operators.state.table import StateTable
from tests.operators.step_times import step_time
from tests.operators.tables.changelogs import hash_columns

COLUMNS = [pa.field("value", pa.int64())]


class Sketch:
    def __init__(self, *, width: int, depth: int) -> None:
        self.step = CountMinStep(columns=COLUMNS, estimate="count", width=width, depth=depth)
        self.table = StateTable(self.step.state_schema)

    def work(self, values: list[int]) -> dict[int, int]:
        """The estimates of the values."""
        rows = pa.table({**hash_columns("h", values), "c0": pa.array(values, pa.int64())})
        advanced = advance(self.step, self.table, lift_rows(rows)[0], step_time(-1))
        runs = [Run.decode(run.encode(), name=run.name) for run in advanced.table.runs]
        self.table = StateTable(self.step.state_schema, runs)
        output = advanced.result.output.to_pylist()
        assert [row["value"] for row in output] == values
        return {row["value"]: row["count"] for row in output}


@given(st.lists(st.lists(st.integers(0, 40), max_size=30), min_size=1, max_size=5), st.integers(1, 8))
def test_estimate_is_never_too_low(batches: list[list[int]], width: int) -> None:
    sketch = Sketch(width=width, depth=2)
    exact: Counter[int] = Counter()
    for batch in batches:
        exact.update(batch)
        assert all(estimate >= exact[value] for value, estimate in sketch.work(batch).items())


def test_estimate_is_within_its_error_with_its_confidence() -> None:
    random = np.random.default_rng(1)
    error, confidence, rows = 0.01, 0.9, 0
    sketch = Sketch(width=width_for(error), depth=depth_for(confidence))
    exact: Counter[int] = Counter()
    for _ in range(5):
        values = random.integers(0, 5_000, 4_000).tolist()
        exact.update(values)
        rows += len(values)
        estimates = sketch.work(values)
    too_high = np.array([estimates[value] - exact[value] for value in estimates])
    assert too_high.max() > 0, "the sketch must be too small for these values"
    assert (too_high > error * rows).mean() <= 1 - confidence


def test_state_does_not_grow_with_the_number_of_values() -> None:
    sketch = Sketch(width=50, depth=3)
    for start in range(0, 3_000, 1_000):
        sketch.work(list(range(start, start + 1_000)))
    assert sketch.table.all_rows().num_rows <= 150


@pytest.mark.parametrize(("error", "width"), [(0.001, 2_719), (0.01, 272)])
def test_width_and_depth_follow_from_the_bounds(error: float, width: int) -> None:
    assert width_for(error) == width
    assert depth_for(0.99) == 5
