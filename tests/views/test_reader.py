"""What readers have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headrace.views.errors import BadView
from headrace.views.reader import Reader


class Empty(Reader):
    def columns(self) -> Sequence[str]:
        return ()

    def position(self) -> None:
        return None

    def get(self, key: Any) -> None:
        return None

    def select(self, selection: Any) -> list[dict[str, Any]]:
        return []

    def close(self) -> None: ...


def test_store_without_an_index_rejects_a_search_with_the_remedy() -> None:
    with pytest.raises(BadView, match="only views in a search index can be searched") as raised:
        Empty().search("oslo")
    assert "--to search" in raised.value.hint
