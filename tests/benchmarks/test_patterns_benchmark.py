"""The benchmark of patterns works on all sides and writes its JSON. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.operators.flink import is_installed
from headrace.testing.requirements import require_java

REPOSITORY = Path(__file__).parents[2]
RUN_TIMEOUT_S = 600


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_row_patterns(tmp_path: Path) -> None:
    require_java()
    sides = ["headrace", *(["flink"] if is_installed() else [])]
    results = tmp_path / "patterns.json"
    command = [sys.executable, "-m", "benchmarks.patterns", "--quick", "--sides", ",".join(sides)]
    command += ["--json", str(results), "--workplace", str(tmp_path)]
    run = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (row,) = json.loads(results.read_text())["rows"]
    assert row["row"] == "row-pattern"
    assert set(row["sides"]) == set(sides)
    assert all(side["median"] > 0 for side in row["sides"].values())
