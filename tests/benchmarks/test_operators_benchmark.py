"""The benchmark of operators works on all sides and writes its table and its JSON. No figure is judged here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.measurements import Goal
from benchmarks.operators.__main__ import SUBJECTS
from benchmarks.operators.flink import is_installed
from benchmarks.operators.subjects.flink import FlinkSql
from headrace.testing.requirements import require_java
from tests.benchmarks.quick_run import quick_run, results_file

RUN_TIMEOUT_S = 1_500


def measured_rows(tmp_path: Path, only: list[str]) -> list[dict[str, Any]]:
    rows = quick_run("operators", tmp_path, "--only", ",".join(only), timeout_s=RUN_TIMEOUT_S)
    assert list(tmp_path.iterdir()) == [results_file("operators", tmp_path)], "the broker's data is removed"
    return rows


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_every_row_on_all_sides(tmp_path: Path) -> None:
    require_java()
    subjects = [subject() for subject in SUBJECTS if subject is not FlinkSql]

    rows = measured_rows(tmp_path, [subject.name for subject in subjects])

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

    rows = measured_rows(tmp_path, [FlinkSql.name])

    assert {row["row"] for row in rows} == {row.key for row in FlinkSql().rows}
    for row in rows:
        assert set(row["sides"]) == {"headrace", "flink"}, row["row"]


@pytest.mark.parametrize(("figure", "verdict"), [(1.0, "aim reached"), (0.99, "below the aim")])
def test_missed_aim_is_no_failure(figure: float, verdict: str) -> None:
    goal = Goal(aim=1.0, against_best=True)

    assert goal.verdict(figure) == verdict
    assert goal.text() == "aim 1 × the best"
