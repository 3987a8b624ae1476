"""Comparisons with an earlier window, beside plain Python over all current results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.comparison import Compared, ComparisonLift, ComparisonStep
from headrace.operators.state.run import Run
from headrace.operators.state.step import advance
from headrace.operators.state.table import StateTable
from headrace.operators.triggers import Panes
from tests.operators.step_times import step_time
from tests.operators.windows.pane_oracle import Oracle, Row, Rules, clock
from tests.operators.windows.stepping import batches

LENGTH = 10


COLUMNS = [
    pa.field("key", pa.string()),
    pa.field("window_start", pa.int64()),
    pa.field("n", pa.int64()),
    pa.field("pane", pa.string()),
    pa.field("revision", pa.int32()),
    pa.field("op", pa.string()),
    pa.field("watermark", pa.int64()),
]


Result = tuple[Any, ...]
"""As the oracle of windows returns it: key, start, end, n, …, pane, revision, op."""


class Comparing:
    """The step under test, with a bucket that can be restored from its bytes."""

    def __init__(self, *, before: int, within: int) -> None:
        compared = Compared(columns=COLUMNS, keys=[0], before=[(2, "n_before")])
        self._before = before
        self._step = ComparisonStep(compared, within_us=within)
        self._lift = ComparisonLift(compared, self._step.input_schema)
        self.table = StateTable(self._step.state_schema)
        self.late_rows = 0

    def work(self, results: list[Result], watermark: float) -> list[dict[str, Any]]:
        time = step_time(watermark)
        advanced = advance(self._step, self.table, self._lift(self._table_of(results))[0], time)
        self.table = advanced.table
        self.late_rows += advanced.result.late_rows
        found: list[dict[str, Any]] = advanced.result.output.to_pylist()
        return found

    def restart(self) -> None:
        runs = [Run.decode(run.encode(), name=run.name) for run in self.table.runs]
        self.table = StateTable(self._step.state_schema, runs)

    def _table_of(self, results: list[Result]) -> pa.Table:
        shown = [(each[0], each[1], each[3], each[-3], each[-2], each[-1], None) for each in results]
        created = {
            "h1": pa.array([hash(each[0]) for each in results], pa.int64()),
            "h2": pa.array([hash(each[0] + "!") for each in results], pa.int64()),
            "start": pa.array([each[1] for each in results], pa.int64()),
            "end": pa.array([each[2] for each in results], pa.int64()),
            "later_start": pa.array([each[1] + self._before for each in results], pa.int64()),
            "later_end": pa.array([each[2] + self._before for each in results], pa.int64()),
            "revision": pa.array([each[-2] for each in results], pa.int32()),
            "is_retraction": pa.array([each[-1] == "-" for each in results], pa.bool_()),
        }
        columns = {
            f"c{number}": pa.array([row[number] for row in shown], field.type)
            for number, field in enumerate(COLUMNS)
        }
        return pa.table({**created, **columns})


@settings(max_examples=150)
@given(
    batches(),
    st.sampled_from([0, 5, 40, 10**6]),
    st.none() | st.integers(1, 3),
    st.sampled_from(["retracting", "accumulating"]),
    st.sampled_from([LENGTH, 3 * LENGTH]),
    st.booleans(),
)
def test_current_results_are_compared_at_every_step(
    batches: list[tuple[list[Row], float, int]],
    within: int,
    early_rows: int | None,
    panes: Panes,
    before: int,
    restarts: bool,
) -> None:
    oracle = Oracle(Rules(within=within, early_rows=early_rows, panes=panes), assign=clock(LENGTH, LENGTH))
    comparing = Comparing(before=before, within=within)
    counts: dict[tuple[str, int], int] = {}
    current: Counter[tuple[Any, ...]] = Counter()
    emitted: dict[tuple[str, int], dict[str, Any]] = {}
    for rows, watermark, now in batches:
        results = oracle.step(rows, watermark, now)
        for result in results:
            if result[-1] == "+":
                counts[result[0], result[1]] = result[3]
        for row in comparing.work(results, watermark):
            window = row["key"], row["window_start"]
            if row["op"] == "-":
                retracted = {**emitted.pop(window), "op": "-", "watermark": row["watermark"]}
                assert row == retracted, "the retracted row is not the emitted one"
            else:
                assert row["revision"] == 0 or window not in emitted
                emitted[window] = row
            current[(*window, row["n"], row["n_before"])] += 1 if row["op"] == "+" else -1
        expected = [
            (key, start, count, counts.get((key, start - before))) for (key, start), count in counts.items()
        ]
        assert +current == Counter(expected)
        assert all(count >= 0 for count in current.values())
        if restarts:
            comparing.restart()
    assert comparing.late_rows == 0
    assert comparing.table.all_rows().num_rows == 0, "state of expired comparisons is left"


def test_a_correction_of_a_deleted_slot_is_dropped_and_counted() -> None:
    comparing = Comparing(before=100, within=0)
    first = ("a", 0, 10, 1, "on time", 0, "+")
    assert [row["op"] for row in comparing.work([first], 20)] == ["+"]
    late = [("a", 0, 10, 1, "on time", 0, "-"), ("a", 0, 10, 2, "late", 1, "+")]
    assert comparing.work(late, 20) == []
    assert comparing.late_rows == 1
