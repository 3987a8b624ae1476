"""Matches are those of a naive matcher, for every pattern, and take linear time if conditions do not need the path."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.operators.patterns.matching import PatternFailed
from headrace.operators.state.step import BEGINNING_US
from tests.operators.patterns.rows_of_pattern import PatternRun
from tests.operators.patterns.strategies import Case, cases

MANY = 3_000 if settings.get_current_profile_name() == "explore" else 150


def naive_output(case: Case) -> list[dict[str, Any]]:
    """In the order of keys and rows."""
    found = []
    for key in ("x", "y"):
        rows = [row for row in case.rows if row["k"] == key]
        found += [{"k": key, **each} for each in case.naive.output(rows)]
    return found


def engine_output(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shown = [{**row, "t": int(row["t"].timestamp())} if "t" in row else row for row in rows]
    return sorted(shown, key=lambda row: row["k"])


@settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_matches_are_those_of_the_naive_matcher(case: Case) -> None:
    columns = {"k": pa.string(), "t": pa.timestamp("us", "UTC"), "v": pa.int64()}
    rows = [{**row, "t": row["t"] * 1_000_000} for row in case.rows]
    run = PatternRun(case.text, columns, "t", rows_max=case.rows_max)
    try:
        expected = naive_output(case)
    except ValueError:
        with pytest.raises(PatternFailed, match="AFTER MATCH SKIP TO"):
            run.all(rows)
        return
    assert engine_output(run.all(rows)) == expected


@settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(is_stream=True), st.randoms(use_true_random=False))
def test_stream_has_the_matches_of_bounded_rows(case: Case, random: Random) -> None:
    """Rows in disorder, in batches, with a watermark: also if the state is empty in between."""
    columns = {"k": pa.string(), "t": pa.timestamp("us", "UTC"), "v": pa.int64()}
    rows = [{**row, "t": row["t"] * 1_000_000} for row in case.rows]
    run = PatternRun(case.text, columns, "t", rows_max=case.rows_max)
    try:
        expected = engine_output(PatternRun(case.text, columns, "t", rows_max=case.rows_max).all(rows))
    except PatternFailed:
        return
    found, waiting, watermark_us = [], list(rows), BEGINNING_US
    while waiting:
        # A batch has some of the next rows, and then the watermark moves to the earliest that is still to come.
        count = random.randint(0, min(4, len(waiting)))
        batch = random.sample(waiting[:6], min(count, len(waiting[:6])))
        waiting = [row for row in waiting if row not in batch]
        found += run.send(batch, watermark_us)
        earliest_us = min((row["t"] for row in waiting), default=0) - random.randint(0, 2) * 1_000_000
        watermark_us = max(earliest_us, watermark_us)
    found += run.end()
    assert _in_order(engine_output(found)) == _in_order(expected)
    assert run.state.all_rows().num_rows == 0


def _in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


COLUMNS = {"k": pa.string(), "t": pa.timestamp("us", "UTC"), "v": pa.int64()}


def _rows(values: Sequence[int | None], key: str = "x") -> list[dict[str, Any]]:
    return [{"k": key, "t": at * 1_000_000, "v": value} for at, value in enumerate(values)]


def _measured(text: str, values: Sequence[int | None], **more: Any) -> list[dict[str, Any]]:
    run = PatternRun(f"PARTITION BY k ORDER BY t MEASURES {text}", COLUMNS, "t", **more)
    return run.all(_rows(values))


@pytest.mark.parametrize(
    "pattern", ["(A?){2,} B", "(A* A*)* B", "((A | A A)* (A | A A)*)* B", "(A?){30} A{30} A* B", "((A+)+)+ B"]
)
def test_ambiguous_pattern_takes_linear_time_if_conditions_do_not_need_the_path(pattern: str) -> None:
    text = f"COUNT(*) AS n PATTERN ({pattern}) DEFINE A AS v = 1, B AS v = 2"
    assert _measured(text, [1] * 2_000) == []
    assert [row["n"] for row in _measured(text, [1] * 2_000 + [2])] == [2_001]


@pytest.mark.parametrize("condition", ["v = 1", "v = 1 AND COUNT(*) > 0"])
def test_no_path_is_tried_if_no_row_of_the_interval_can_end_a_match(condition: str) -> None:
    text = "COUNT(*) AS n PATTERN (A+ B) WITHIN INTERVAL '30000' SECOND DEFINE A AS {}, B AS v = 2"
    found = _measured(text.format(condition), [1] * 60_000 + [2])
    assert [row["n"] for row in found] == [30_000]


def test_too_many_steps_are_an_error_with_the_pattern_and_the_key() -> None:
    text = "COUNT(*) AS n PATTERN ((A | A A)* B) DEFINE A AS SUM(v) > 0, B AS v = 2 AND COUNT(*) < 0"
    with pytest.raises(PatternFailed) as failed:
        _measured(text, [1] * 60 + [2], steps_max=10_000)
    assert "PATTERN ((A | A A)* B)" in failed.value.message
    assert "more than 10,000 steps" in failed.value.message
    assert "k='x'" in failed.value.message
    assert "steps_max" in failed.value.hint


def test_paths_are_cut_where_columns_exclude_a_match() -> None:
    """B is excluded by a condition of its row alone, so no path is tried, although A needs the path."""
    text = "COUNT(*) AS n PATTERN ((A | A A)* B) DEFINE A AS SUM(v) > 0, B AS v = 2 AND COUNT(*) > 0"
    assert _measured(text, [1] * 500, steps_max=10) == []


@pytest.mark.parametrize(
    ("to", "problem"),
    [("FIRST C", "has no row of it"), ("LAST A", "begins with it"), ("U", "has no row of it")],
)
def test_skip_without_a_target_is_an_error(to: str, problem: str) -> None:
    text = f"COUNT(*) AS n AFTER MATCH SKIP TO {to} PATTERN (A (B | C)) SUBSET U = (C) DEFINE B AS v = 2"
    with pytest.raises(PatternFailed, match=problem):
        _measured(text, [1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["v = 1", "v = 1 AND COUNT(*) > 0"])
def test_match_may_have_a_million_rows(condition: str) -> None:
    found = _measured(
        f"COUNT(*) AS n, SUM(A.v) AS total PATTERN (A+ B) DEFINE A AS {condition}, B AS v = 2",
        [1] * 999_999 + [2],
        steps_max=2_000_000,
    )
    assert found == [{"k": "x", "n": 1_000_000, "total": 999_999}]


def test_time_of_a_match_ends_before_the_interval_is_over() -> None:
    text = "COUNT(*) AS n PATTERN (A+) WITHIN INTERVAL '{}' SECOND"
    assert [row["n"] for row in _measured(text.format(3), [1] * 7)] == [3, 3, 1]
    assert [row["n"] for row in _measured(text.format(1), [1] * 2)] == [1, 1]
    assert [row["n"] for row in _measured("COUNT(*) AS n PATTERN (A+)", [1] * 7, rows_max=4)] == [4, 3]
