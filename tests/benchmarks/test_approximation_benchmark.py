"""The benchmark of sketches works on both sides. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.approximation.__main__ import SUBJECTS
from benchmarks.runner import DOCS_PAGE
from headrace.testing.requirements import require_java

REPOSITORY = Path(__file__).parents[2]
RUN_TIMEOUT_S = 900


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_every_kind_of_sketch_on_both_sides(tmp_path: Path) -> None:
    require_java()
    results = tmp_path / "approximation.json"
    command = [sys.executable, "-m", "benchmarks.approximation", "--quick", "--rows", "*-10000"]
    command += ["--json", str(results), "--workplace", str(tmp_path)]
    run = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    rows = json.loads(results.read_text())["rows"]
    assert len(rows) == 6
    for row in rows:
        assert set(row["sides"]) == {"headrace", "spark"}, row["row"]
        assert all(side["median"] > 0 for side in row["sides"].values()), row["row"]


def test_page_has_a_place_for_every_table() -> None:
    page = DOCS_PAGE.read_text()
    for subject in SUBJECTS:
        assert f"<!-- measured {subject.name}: begin -->" in page
        assert f"<!-- measured {subject.name}: end -->" in page


def test_row_keys_are_unique_and_goals_name_rows_that_exist() -> None:
    rows = [row for subject in SUBJECTS for row in subject().rows]
    keys = {row.key for row in rows}

    assert len(keys) == len(rows)
    assert {goal.against_row for row in rows for goal in row.goals if goal.against_row} <= keys
