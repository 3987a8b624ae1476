"""Sources are found by their id; the oldest are forgotten."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace.operators.arrow_stage import sources


class Known:
    def __init__(self, id: str) -> None:
        self.id = id


def test_the_oldest_sources_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "SOURCES_MAX", 2)
    registered: list[Any] = [Known("first"), Known("second"), Known("third")]
    for each in registered:
        sources.register(cast(sources.ColumnSource, each))
    assert [sources.find(each.id) for each in registered] == [None, *registered[1:]]
