"""What only views in Delta tables do; `tests/contract` checks the rest."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from headrace.views.definition import Definition
from headrace.views.query.rows import selected
from headrace.views.query.text import parse
from headrace.views.stores.lake import LakeViews
from tests.contract.other_view_stores import SCHEMA, Place, lake_place, row
from tests.views.query.conditions import TEXTS, literal

ROWS = [row(city, place) for place, city in enumerate(["a", "A?", '"', "it's ?", "é%_", "\\"])]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return lake_place(request, tmp_path)


def test_partitions_and_storage_options_reach_the_table(place: Place) -> None:
    options = {"partition_by": "users, note", "storage.allow_http": "true"}
    place.definition = msgspec.structs.replace(place.definition, options=options)
    place.store().check()
    place.build(1, ROWS)
    (file,) = Path(place.definition.at, "users_by_city__1", "users=3").rglob("*.parquet")
    assert file.parent.name.startswith("note=")
    assert len(place.store().sample(1, 10)) == len(ROWS)


def test_address_is_not_a_folder(tmp_path: Path) -> None:
    at = "s3://bucket/views"
    store = LakeViews(Definition(name="users", topics=("t",), key=("id",), store="lake", at=at), tmp_path)
    assert repr(store.sink(1)).count("s3://bucket/views/users__1") == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(text=TEXTS)
def test_texts_in_conditions_are_values_and_nothing_else(place: Place, text: str) -> None:
    if 1 not in place.store().versions():
        place.build(1, ROWS)
    for condition in (f"city = {literal(text)}", f"city > {literal(text)} OR note = '?'"):
        selection = parse(f"WHERE {condition}", columns=SCHEMA.names, key=("city",))
        assert place.store().reader(1).select(selection) == selected(ROWS, selection)
