"""Lucene's monitor, run by a small program."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.testing.lucene_monitor import LuceneFailed, monitor
from headrace.testing.requirements import require_java


def test_documents_are_matched_one_by_one_and_in_batches(tmp_path: Path) -> None:
    require_java()
    queries = ["tea", "+tea +green", '"green tea"', "(*:* -tea)"]
    documents = [["green tea", "pot"], ["x", "tea green"], ["", ""]]
    for batch in (1, 2):
        monitored, hits = monitor(queries, documents, ["title", "body"], tmp_path, batch=batch)
        assert hits == [[0, 1, 2], [0, 1], [3]]
        assert monitored.hits == 6
        assert monitored.match_s > 0


def test_query_that_lucene_rejects_is_an_error(tmp_path: Path) -> None:
    require_java()
    with pytest.raises(LuceneFailed, match="ParseException"):
        monitor(["tea AND ("], [["tea"]], ["title"], tmp_path)
