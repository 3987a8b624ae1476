"""The benchmark of searches works on all sides and writes its table and its JSON. No figure is judged here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.search.workload import documents, queries
from headrace.testing.requirements import require_java
from tests.benchmarks.quick_run import quick_run

RUN_TIMEOUT_S = 600


@pytest.mark.slow
@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
def test_quick_run_measures_every_row_on_all_sides(tmp_path: Path) -> None:
    require_java()
    found = quick_run("search", tmp_path, timeout_s=RUN_TIMEOUT_S)
    rows = {row["row"]: set(row["sides"]) for row in found}
    assert rows == {
        "search-matcher": {"headrace", "lucene"},
        "search-naive": {"headrace"},
        "search-stream": {"headrace", "lucene"},
        "search-memory": {"headrace"},
    }


def test_workload_is_the_same_in_every_run() -> None:
    assert documents(3) == documents(3)
    assert list(queries(50)) == list(queries(50))
    assert len({each.text for each in queries(1_000)}) > 990
