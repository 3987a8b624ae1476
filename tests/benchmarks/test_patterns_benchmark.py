"""The benchmark of patterns works on all sides and writes its JSON. No figure is judged here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.operators.flink import is_installed
from headrace.testing.requirements import require_java
from tests.benchmarks.quick_run import quick_run

RUN_TIMEOUT_S = 600


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_row_patterns(tmp_path: Path) -> None:
    require_java()
    sides = ["headrace", *(["flink"] if is_installed() else [])]
    (row,) = quick_run("patterns", tmp_path, "--sides", ",".join(sides), timeout_s=RUN_TIMEOUT_S)
    assert row["row"] == "row-pattern"
    assert set(row["sides"]) == set(sides)
    assert all(side["median"] > 0 for side in row["sides"].values())
