"""The benchmark of captures works on both sides and writes its table and its JSON. No figure is judged here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cdc.__main__ import SUBJECTS
from headrace.testing.requirements import require_java, require_postgres
from tests.benchmarks.quick_run import quick_run, results_file

RUN_TIMEOUT_S = 900


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_every_row(tmp_path: Path) -> None:
    require_java()
    require_postgres()
    rows = quick_run("cdc", tmp_path, timeout_s=RUN_TIMEOUT_S)

    assert {row["row"] for row in rows} == {row.key for subject in SUBJECTS for row in subject().rows}
    for row in rows:
        assert "headrace" in row["sides"], row["row"]
        assert all(side["median"] > 0 for side in row["sides"].values()), row["row"]
    assert list(tmp_path.iterdir()) == [results_file("cdc", tmp_path)], (
        "the data of brokers and servers is removed"
    )
