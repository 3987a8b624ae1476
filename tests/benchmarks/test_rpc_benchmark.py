"""The benchmark of questions works on all sides and writes its table and its JSON. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.rpc.__main__ import SUBJECTS
from benchmarks.runner import DOCS_PAGE
from headrace.testing.requirements import require_java

REPOSITORY = Path(__file__).parents[2]
RUN_TIMEOUT_S = 900


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_every_row(tmp_path: Path) -> None:
    require_java()
    results = tmp_path / "rpc.json"
    command = [sys.executable, "-m", "benchmarks.rpc", "--quick", "--json", str(results)]
    run = subprocess.run(
        [*command, "--workplace", str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    rows = json.loads(results.read_text())["rows"]
    assert {row["row"] for row in rows} == {row.key for subject in SUBJECTS for row in subject().rows}
    for row in rows:
        assert "headrace" in row["sides"], row["row"]
        assert all(side["median"] > 0 for side in row["sides"].values()), row["row"]
    assert list(tmp_path.iterdir()) == [results], "the data of brokers and servers is removed"


def test_page_has_a_place_for_every_table() -> None:
    page = DOCS_PAGE.read_text()
    for subject in SUBJECTS:
        assert f"<!-- measured {subject.name}: begin -->" in page
        assert f"<!-- measured {subject.name}: end -->" in page
