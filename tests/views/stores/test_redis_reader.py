from __future__ import annotations

from pathlib import Path

import pytest

from headrace.views.errors import BadView
from headrace.views.selection import Selection
from headrace.views.stores import redis_reader
from tests.contract.other_view_stores import Place, redis_place, row


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    place = redis_place(request, tmp_path)
    place.build(1, [row(f"city {number}", number) for number in range(10)])
    return place


def test_selection_of_too_many_rows_says_what_to_do(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_reader, "SCAN_ROWS_MAX", 9)
    reader = place.store().reader(1)
    with pytest.raises(BadView, match=r"would read 10 rows.*give the key \(city = …\)"):
        reader.select(Selection(where="users = 3"))
    assert reader.select(Selection(where="city = 'city 3'")) == [row("city 3", 3)]
    assert reader.select(Selection(where="city = 'city 3' AND users = 4")) == []


def test_row_is_found_only_with_a_key_of_its_types(place: Place) -> None:
    reader = place.store().reader(1)
    assert reader.get({"city": None}) is None
    for key in ({"city": 3}, {"city": "city 3", "users": 3}, {}):
        with pytest.raises(BadView, match="is not a key"):
            reader.get(key)
