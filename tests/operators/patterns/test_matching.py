"""Matches are those of a naive matcher, for every pattern, and take linear time if conditions do not need the path."""

from __future__ import annotations

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
