"""The benchmark of searches works on all sides and writes its table and its JSON. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.runner import DOCS_PAGE
from benchmarks.search.__main__ import SUBJECTS
from benchmarks.search.workload import documents, queries
from headrace.testing.requirements import require_java

REPOSITORY = Path(__file__).parents[2]
RUN_TIMEOUT_S = 600


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_every_row_on_all_sides(tmp_path: Path) -> None:
    require_java()
    results = tmp_path / "search.json"
    command = [sys.executable, "-m", "benchmarks.search", "--quick", "--json", str(results)]
    run = subprocess.run(
        [*command, "--workplace", str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    rows = {row["row"]: set(row["sides"]) for row in json.loads(results.read_text())["rows"]}
    assert rows == {
        "search-matcher": {"headrace", "lucene"},
        "search-naive": {"headrace"},
        "search-stream": {"headrace", "lucene"},
        "search-memory": {"headrace"},
    }


def test_page_has_a_place_for_every_table() -> None:
    page = DOCS_PAGE.read_text()
    for subject in SUBJECTS:
        assert f"<!-- measured {subject.name}: begin -->" in page
        assert f"<!-- measured {subject.name}: end -->" in page


def test_workload_is_the_same_in_every_run() -> None:
    assert documents(3) == documents(3)
    assert list(queries(50)) == list(queries(50))
    assert len({each.text for each in queries(1_000)}) > 990
