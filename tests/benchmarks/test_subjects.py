"""The tables of all benchmarks: their places in the page, their rows, and the goals of these."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from benchmarks.runner import DOCS_PAGE

PACKAGES = (
    "approximation",
    "broker",
    "cdc",
    "edges",
    "operators",
    "patterns",
    "pipeline",
    "queue",
    "rpc",
    "search",
)


@pytest.fixture(params=PACKAGES)
def subjects(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(f"benchmarks.{request.param}.__main__").SUBJECTS


def test_page_has_a_place_for_every_table(subjects: Any) -> None:
    page = DOCS_PAGE.read_text()
    for subject in subjects:
        assert f"<!-- measured {subject.name}: begin -->" in page
        assert f"<!-- measured {subject.name}: end -->" in page


def test_row_keys_are_unique_and_goals_name_rows_that_exist(subjects: Any) -> None:
    rows = [row for subject in subjects for row in subject().rows]
    keys = {row.key for row in rows}

    assert len(keys) == len(rows)
    assert {goal.against_row for row in rows for goal in row.goals if goal.against_row} <= keys
