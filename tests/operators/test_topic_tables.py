"""Topics that operators name are read by the reader that is set."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.operators import topic_tables
from headrace.operators.operator import BadOperator
from headrace.operators.topic_tables import read_topic_beside, set_reader


def test_reader_that_is_set_reads_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_tables, "_readers", [])
    rows: Any = "rows"
    with pytest.raises(BadOperator, match="queries is topic 'searches', and nothing that reads topics"):
        read_topic_beside(rows, "searches", operator="SearchQueries", field="queries")
    reader: Any = lambda given, topic: (given, topic)  # noqa: E731
    set_reader(reader)
    found: Any = read_topic_beside(rows, "searches", operator="SearchQueries", field="queries")
    assert found == ("rows", "searches")
