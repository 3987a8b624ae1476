"""Searching views: words, highlights, facets, pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.views.errors import BadView
from headrace.views.reader import Reader
from headrace.views.selection import Selection
from headrace.views.stores import search
from tests.contract.other_view_stores import Place, row, search_place

ROWS = [
    row("Oslo", 3, note="capital", is_open=True),
    row("Bergen", 2, note="rain & <b>fish</b>"),
    row("Tromsø", 3, note="aurora", is_open=True),
]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    import msgspec

    place = search_place(request, tmp_path)
    place.definition = msgspec.structs.replace(place.definition, options={})
    place.build(1, ROWS)
    return place


@pytest.fixture
def reader(place: Place) -> Reader:
    return place.store().reader(1)


def test_words_are_found_and_highlighted_with_all_else_escaped(reader: Reader) -> None:
    found = reader.search("fish OR aurora")
    assert found.total == 2
    highlights = {hit.row["city"]: hit.highlights["note"] for hit in found.hits}
    assert highlights["Tromsø"] == "<b>aurora</b>"
    assert highlights["Bergen"].startswith("rain &amp; &lt;b&gt;<b>fish</b>&lt;")
    assert all(hit.score > 0 for hit in found.hits)


def test_facets_count_all_hits_and_not_only_those_of_the_page(reader: Reader) -> None:
    found = reader.search("*", limit=1, facets=["city", "users", "is_open"])
    assert (found.total, len(found.hits)) == (3, 1)
    assert found.facets == {
        "city": {"Bergen": 1, "Oslo": 1, "Tromsø": 1},
        "users": {"3": 2, "2": 1},
        "is_open": {"true": 2},
    }


def test_pages_have_every_hit_once(reader: Reader) -> None:
    found = [reader.search("*", limit=1, offset=offset).hits for offset in range(4)]
    assert [len(hits) for hits in found] == [1, 1, 1, 0]
    assert len({hit.row["city"] for hits in found for hit in hits}) == 3


def test_text_that_is_split_into_words_has_no_facets(reader: Reader) -> None:
    with pytest.raises(BadView, match="note can't be counted"):
        reader.search("*", facets=["note"])


@pytest.mark.parametrize("query", ["nowhere:x", '"open', "users:[1 TO"])
def test_query_that_cannot_be_parsed_is_rejected(reader: Reader, query: str) -> None:
    with pytest.raises(BadView, match="can't be searched for"):
        reader.search(query)


def test_hits_beyond_the_bound_are_rejected(reader: Reader) -> None:
    with pytest.raises(BadView, match="make the query narrower"):
        reader.search("*", limit=10, offset=10_000)


def test_selection_of_too_many_rows_says_what_to_do(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SCAN_ROWS_MAX", 2)
    with pytest.raises(BadView, match=r"would read 3 rows.*search with words"):
        reader.select(Selection(where="users = 3"))
    assert reader.select(Selection(where="city = 'Oslo' AND users = 3")) == ROWS[:1]
