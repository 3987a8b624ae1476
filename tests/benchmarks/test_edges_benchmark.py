"""The benchmark of edges works on all sides and writes its table and its JSON. No figure is judged here."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from benchmarks.edges.__main__ import SUBJECTS
from benchmarks.edges.karapace import PYTHON_VARIABLE
from benchmarks.measurements import Side
from tests.benchmarks.quick_run import quick_run, results_file

RUN_TIMEOUT_S = 300


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm, for statsd")
def test_quick_run_measures_every_row(tmp_path: Path) -> None:
    has_karapace = PYTHON_VARIABLE in os.environ
    sides = ",".join(side for side in Side if side is not Side.KARAPACE or has_karapace)
    rows = quick_run("edges", tmp_path, "--sides", sides, timeout_s=RUN_TIMEOUT_S)

    assert {row["row"] for row in rows} == {row.key for subject in SUBJECTS for row in subject().rows}
    for row in rows:
        assert "headrace" in row["sides"], row["row"]
        assert all(side["median"] > 0 for side in row["sides"].values()), row["row"]
    assert list(tmp_path.iterdir()) == [results_file("edges", tmp_path)], "the data of brokers is removed"
