from __future__ import annotations

import base64
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.views.errors import BadView
from headrace.views.query.paging import on_page, page_token
from headrace.views.query.rows import selected
from headrace.views.query.text import parse
from tests.views.query.conditions import COLUMNS, KEY, ORDER, ROWS, selection_text


@settings(max_examples=60)
@given(rows=ROWS, order=ORDER, limit=st.integers(1, 5))
def test_pages_one_after_another_are_the_whole_in_its_order(
    rows: list[dict[str, Any]], order: list[tuple[str, str]], limit: int
) -> None:
    """Also where columns of the order are null, and descending."""
    whole = selected(rows, parse(selection_text("id >= -15", order, 100), columns=COLUMNS, key=KEY))
    selection = parse(selection_text("id >= -15", order, limit), columns=COLUMNS, key=KEY)
    found = page = selected(rows, selection)
    while len(page) == limit:
        page = selected(rows, on_page(selection, page_token(selection, page[-1]), key=KEY))
        found = found + page
    assert found == whole


@pytest.mark.parametrize(
    "value",
    [
        "it's",
        True,
        7,
        -0.5,
        1e-7,
        Decimal("10.50"),
        b"\x00\xff",
        datetime(2026, 1, 1, tzinfo=UTC),
        date(2026, 1, 1),
    ],
)
def test_page_begins_behind_values_of_every_type(value: Any) -> None:
    selection = parse("", columns=["value"], key=["value"])
    behind = on_page(selection, page_token(selection, {"value": value}), key=["value"])
    assert selected([{"value": value}], behind) == []
    assert selected([{"value": value}], selection) == [{"value": value}]


def test_token_of_another_selection_or_of_no_page_is_rejected() -> None:
    by_city = parse("ORDER BY city", columns=COLUMNS, key=KEY)
    token = page_token(by_city, {"id": 1, "city": "Oslo"})
    for wrong, selection in [
        (token, parse("", columns=COLUMNS, key=KEY)),
        ("", by_city),
        ("x", by_city),
        (token[:-5], by_city),
        (
            base64.urlsafe_b64encode(
                b'[[["city",false],["id",false]],[["text",1],["integer","x"]]]'
            ).decode(),
            by_city,
        ),
        (base64.urlsafe_b64encode(b'[[["city",false],["id",false]],[]]').decode(), by_city),
    ]:
        with pytest.raises(BadView, match="not the token of a page"):
            on_page(selection, wrong, key=KEY)


def test_pages_cannot_be_ordered_by_values_without_an_order() -> None:
    selection = parse("ORDER BY city", columns=COLUMNS, key=KEY)
    for value in ([1], {"a": 1}, float("nan")):
        with pytest.raises(BadView, match="can't be ordered by column city"):
            page_token(selection, {"id": 1, "city": value})
