"""Matches are those of a naive matcher, for every pattern, and take linear time if conditions do not need the path."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from headrace.operators.patterns.matching import PatternFailed
from tests.operators.patterns.rows_of_pattern import PatternRun, matched
from tests.operators.patterns.strategies import Case, cases

COLUMNS = {"k": pa.string(), "t": pa.timestamp("s"), "v": pa.int64()}
MANY = 3_000 if settings.get_current_profile_name() == "explore" else 400


def _timed(row: dict[str, Any]) -> dict[str, Any]:
    return row


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
