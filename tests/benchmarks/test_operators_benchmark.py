"""The benchmark of operators works on all sides and writes its table and its JSON. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measurements import Goal
from benchmarks.operators.__main__ import SUBJECTS
from benchmarks.operators.flink import is_installed
from benchmarks.operators.subjects.flink import FlinkSql
from benchmarks.runner import DOCS_PAGE
from headrace.testing.requirements import require_java

REPOSITORY = Path(__file__).parents[2]
RUN_TIMEOUT_S = 1_500


def quick_run(tmp_path: Path, only: list[str]) -> list[dict[str, Any]]:
    results = tmp_path / "operators.json"
    command = [sys.executable, "-m", "benchmarks.operators", "--quick", "--only", ",".join(only)]
    command += ["--json", str(results), "--workplace", str(tmp_path)]
    run = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert list(tmp_path.iterdir()) == [results], "the broker's data is removed"
    rows: list[dict[str, Any]] = json.loads(results.read_text())["rows"]
    return rows


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_every_row_on_all_sides(tmp_path: Path) -> None:
    require_java()
    subjects = [subject() for subject in SUBJECTS if subject is not FlinkSql]

    rows = quick_run(tmp_path, [subject.name for subject in subjects])

    assert {row["row"] for row in rows} == {row.key for subject in subjects for row in subject.rows}
    sides = {subject.name: set(subject.sides) for subject in subjects}
    for row in rows:
        assert set(row["sides"]) == sides[row["subject"]], row["row"]
        assert all(side["median"] > 0 for side in row["sides"].values()), row["row"]


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_every_row_beside_flink(tmp_path: Path) -> None:
    require_java()
    if not is_installed():
        # Also in CI: it is a peer to measure, not a part of Headrace.
        pytest.skip(
            "PyFlink is not here; make bench-operators ARGS='--quick --only operators-flink' fetches it"
        )

    rows = quick_run(tmp_path, [FlinkSql.name])

    assert {row["row"] for row in rows} == {row.key for row in FlinkSql().rows}
    for row in rows:
        assert set(row["sides"]) == {"headrace", "flink"}, row["row"]


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


@pytest.mark.parametrize(("figure", "verdict"), [(1.0, "aim reached"), (0.99, "below the aim")])
def test_missed_aim_is_no_failure(figure: float, verdict: str) -> None:
    goal = Goal(aim=1.0, against_best=True)

    assert goal.verdict(figure) == verdict
    assert goal.text() == "aim 1 × the best"
