"""The step of a stream: when a match is emitted, what the state holds, late rows, and restarts."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.operators.patterns.pattern_step import TIE, TIME, PatternLift, PatternStep
from headrace.operators.state.run import NEVER
from tests.operators.patterns.rows_of_pattern import PatternRun

COLUMNS = {"k": pa.string(), "t": pa.timestamp("us", "UTC"), "v": pa.int64()}
SECOND_US = 1_000_000


def row(at: float, v: int | None, k: str = "x") -> dict[str, Any]:
    return {"k": k, "t": int(at * SECOND_US), "v": v}


def run_of(clauses: str, **more: Any) -> PatternRun:
    return PatternRun(f"PARTITION BY k ORDER BY t MEASURES {clauses}", COLUMNS, "t", **more)


UP = "FIRST(v) AS low, v AS high PATTERN (A B+) WITHIN INTERVAL '10' SECOND DEFINE B AS v > LAST(v, 1)"


def test_match_is_emitted_when_no_row_to_come_can_change_it() -> None:
    run = run_of(UP)
    assert run.send([row(1, 1), row(2, 2), row(3, 3)], 4 * SECOND_US) == []
    assert run.send([row(5, 2)], 5 * SECOND_US) == []
    assert run.send([], 5 * SECOND_US + 1) == [{"k": "x", "low": 1, "high": 3}]


def test_match_is_emitted_when_its_time_is_over() -> None:
    run = run_of(UP)
    run.send([row(1, 1), row(2, 2)], 11 * SECOND_US - 1)
    assert run.state.next_due("due_us", 0) == 11 * SECOND_US
    assert run.send([], 11 * SECOND_US) == [{"k": "x", "low": 1, "high": 2}]
    assert run.state.all_rows().num_rows == 0


def test_rows_that_can_be_in_no_match_are_deleted_when_the_watermark_has_passed_them() -> None:
    run = run_of("COUNT(*) AS n PATTERN (A B) WITHIN INTERVAL '1' HOUR DEFINE A AS v = 1, B AS v = 2")
    run.send([row(at, 0, k=f"k{at}") for at in range(100)], 200 * SECOND_US)
    assert run.state.all_rows().num_rows == 0
    assert run.state.next_due("due_us", 0) == NEVER


def test_state_has_the_rows_that_prev_needs() -> None:
    run = run_of("PREV(A.v, 2) AS p PATTERN (A) WITHIN INTERVAL '1' HOUR DEFINE A AS v > 1")
    run.send([row(at, 1) for at in range(10)], 20 * SECOND_US)
    assert run.state.all_rows().num_rows == 2
    assert run.send([row(21, 5)], 22 * SECOND_US) == [{"k": "x", "p": 1}]


def test_numbers_of_matches_and_the_first_row_are_known_after_all_rows_are_processed() -> None:
    run = run_of("MATCH_NUMBER() AS n PATTERN (A) WITHIN INTERVAL '1' HOUR")
    assert [run.send([row(at, 1)], (at + 1) * SECOND_US) for at in range(3)] == [
        [{"k": "x", "n": at + 1}] for at in range(3)
    ]
    run = run_of("v AS v PATTERN (^ A) WITHIN INTERVAL '1' HOUR")
    assert [run.send([row(at, at)], (at + 1) * SECOND_US) for at in range(3)] == [
        [{"k": "x", "v": 0}],
        [],
        [],
    ]


def test_next_waits_for_the_next_row_of_the_key() -> None:
    run = run_of("NEXT(v) AS after PATTERN (A) WITHIN INTERVAL '1' SECOND")
    assert run.send([row(1, 1)], 100 * SECOND_US) == []
    assert run.send([row(200, 2)], 300 * SECOND_US) == [{"k": "x", "after": 2}]


def test_rows_behind_the_watermark_of_the_previous_batch_are_late() -> None:
    run = run_of(UP)
    run.send([row(8, 1)], 8 * SECOND_US)
    run.send([row(7, 9), row(8, 9)], 9 * SECOND_US)
    assert (run.result.rows_in, run.result.late_rows) == (2, 1)


def test_unmatched_row_is_emitted_once_even_if_matches_overlap() -> None:
    run = run_of(
        "CLASSIFIER() AS c ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO NEXT ROW "
        "PATTERN (A B) WITHIN INTERVAL '9' SECOND DEFINE B AS v = 2"
    )
    found = [each for at in range(6) for each in run.send([row(at, 2 if at == 3 else 1)], at * SECOND_US)]
    found += run.send([], 100 * SECOND_US)
    assert [(each["t"].second, each["c"]) for each in found] == [
        (0, None),
        (1, None),
        (2, "A"),
        (3, "B"),
        (4, None),
        (5, None),
    ]


@pytest.mark.parametrize("restart_after", range(6))
def test_step_continues_from_the_state_in_the_middle_of_a_match(restart_after: int) -> None:
    """A step that was sent to another worker has no memory but the state."""
    run = run_of(
        "ARRAY_AGG(v) AS all, MATCH_NUMBER() AS n PATTERN (A B* C) WITHIN INTERVAL '1' HOUR "
        "DEFINE B AS v = 1, C AS v = 2"
    )
    found = []
    for at, v in enumerate([1, 1, 2, 1, 1, 2]):
        if at == restart_after:
            run.step = pickle.loads(pickle.dumps(run.step))
            assert isinstance(run.step, PatternStep)
        found += run.send([row(at, v)], (at + 1) * SECOND_US)
    assert found == [{"k": "x", "all": [1, 1, 2], "n": 1}, {"k": "x", "all": [1, 1, 2], "n": 2}]


@pytest.mark.slow
def test_match_of_a_million_rows_may_arrive_in_many_batches() -> None:
    run = run_of(
        "COUNT(*) AS n, SUM(A.v) AS total PATTERN (A+ B) DEFINE A AS v = 1, B AS v = 2", rows_max=2_000_000
    )
    size = 250_000
    for start in range(0, 1_000_000, size):
        rows = [row(at, 2 if at == 999_999 else 1) for at in range(start, start + size)]
        assert run.send(rows, start * SECOND_US) == []
    assert run.send([], 1_000_001 * SECOND_US) == [{"k": "x", "n": 1_000_000, "total": 999_999}]
    assert run.state.all_rows().num_rows == 0


def test_later_columns_of_the_order_decide_between_rows_of_equal_time() -> None:
    run = PatternRun(
        "ORDER BY t, v DESC NULLS FIRST MEASURES ARRAY_AGG(v) AS all PATTERN (A+)", COLUMNS, "t", rows_max=9
    )
    assert run.all([row(1, 1), row(1, 3), row(1, None), row(0, 0)]) == [{"all": [0, None, 3, 1]}]


def test_event_time_is_sent_once() -> None:
    run = run_of(UP)
    assert run.shape.sent == ["k", "v"]
    sent = pa.table(
        {
            "h1": pa.array([1, 2]),
            "h2": pa.array([3, 4]),
            TIME: pa.array([5, -6]),
            f"{TIE}0": pa.array([7, 8]),
            **{run.shape.place(name): pa.array([None, None], COLUMNS[name]) for name in run.shape.sent},
        }
    )
    lifted, hashes = PatternLift(run.step.input_schema)(sent)
    assert lifted.schema == run.step.input_schema
    assert lifted.column(run.shape.place("t")).cast(pa.int64()).to_pylist() == [5, -6]
    assert np.array_equal(hashes, [1, 2])


def test_event_time_that_is_a_key_or_has_no_zone_is_sent_as_a_column() -> None:
    clauses = "ORDER BY t PATTERN (A) WITHIN INTERVAL '1' HOUR"
    without_zone = {**COLUMNS, "t": pa.timestamp("us")}
    assert "t" in PatternRun(f"PARTITION BY k {clauses}", without_zone, "t").shape.sent
    assert "t" in PatternRun(f"PARTITION BY k, t {clauses}", COLUMNS, "t").shape.sent
