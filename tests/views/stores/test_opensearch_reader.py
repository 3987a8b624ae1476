"""Searching views in OpenSearch: words, highlights, facets, pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.views.errors import BadView
from headrace.views.reader import Reader
from headrace.views.selection import Selection
from headrace.views.stores import opensearch_reader
from tests.contract.other_view_stores import opensearch_place, row

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROWS = [
    row("Oslo", 3, note="capital", is_open=True),
    row("Bergen", 2, note="rain & <b>fish</b>"),
    row("Tromsø", 3, note="aurora", is_open=True),
]


@pytest.fixture
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Reader:
    place = opensearch_place(request, tmp_path)
    place.build(1, ROWS)
    return place.store().reader(1)


def test_words_are_found_and_highlighted_with_all_else_escaped(reader: Reader) -> None:
    found = reader.search("fish OR aurora")
    assert found.total == 2
    highlights = {hit.row["city"]: hit.highlights["note"] for hit in found.hits}
    assert highlights["Tromsø"] == "<b>aurora</b>"
    assert highlights["Bergen"].startswith("rain &amp; &lt;b&gt;<b>fish</b>")


def test_facets_count_all_hits_and_not_only_those_of_the_page(reader: Reader) -> None:
    found = reader.search("*", limit=1, facets=["city", "users", "is_open"])
    assert (found.total, len(found.hits)) == (3, 1)
    assert found.facets == {
        "city": {"Bergen": 1, "Oslo": 1, "Tromsø": 1},
        "users": {"3": 2, "2": 1},
        "is_open": {"true": 2},
    }
    with pytest.raises(BadView, match="opened can't be counted"):
        reader.search("*", facets=["opened"])


def test_pages_have_every_hit_once_up_to_the_bound(reader: Reader) -> None:
    found = [reader.search("*", limit=1, offset=offset).hits for offset in range(4)]
    assert [len(hits) for hits in found] == [1, 1, 1, 0]
    assert len({hit.row["city"] for hits in found for hit in hits}) == 3
    with pytest.raises(BadView, match="make the query narrower"):
        reader.search("*", limit=10, offset=10_000)


def test_query_that_cannot_be_parsed_is_rejected(reader: Reader) -> None:
    with pytest.raises(BadView, match="Failed to parse query"):
        reader.search('"open AND (')


def test_scan_reads_all_pages_and_is_bounded(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opensearch_reader, "ROWS_PER_REQUEST", 1)
    assert len(reader.select(Selection())) == 3
    monkeypatch.setattr(opensearch_reader, "SCAN_ROWS_MAX", 2)
    with pytest.raises(BadView, match="would read 3 rows"):
        reader.select(Selection(where="rate > 3"))
    assert reader.select(Selection(where="city = 'Oslo' AND users = 3")) == ROWS[:1]
