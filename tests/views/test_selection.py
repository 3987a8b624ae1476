from __future__ import annotations

import msgspec

from headrace.views.selection import PAGE_ROWS, ROWS_MAX, Selection


def test_selection_is_a_value_that_can_be_sent() -> None:
    selection = Selection(where="(\"city\" = 'Oslo')", order_by=(("city", True),), limit=5, offset=2)
    assert msgspec.json.decode(msgspec.json.encode(selection), type=Selection) == selection


def test_page_is_bounded_by_default() -> None:
    assert Selection().limit == PAGE_ROWS <= ROWS_MAX
