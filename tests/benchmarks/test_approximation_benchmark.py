"""The benchmark of sketches works on both sides. No figure is judged here."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.testing.requirements import require_java
from tests.benchmarks.quick_run import quick_run

RUN_TIMEOUT_S = 900


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_every_kind_of_sketch_on_both_sides(tmp_path: Path) -> None:
    require_java()
    rows = quick_run("approximation", tmp_path, "--rows", "*-10000", timeout_s=RUN_TIMEOUT_S)
    assert len(rows) == 6
    for row in rows:
        assert set(row["sides"]) == {"headrace", "spark"}, row["row"]
        assert all(side["median"] > 0 for side in row["sides"].values()), row["row"]
