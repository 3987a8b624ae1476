from __future__ import annotations

from typing import Any

import pytest

from headrace.gateway.catalog.subjects import Place, description_of, latest_by_subject, place_of
from headrace.gateway.registry.records import Version
from headrace.schemas.definition import Definition, SchemaType

TOPICS = {"orders": 1, "shop-orders": 1, "a-b": 1}


@pytest.mark.parametrize(
    ("subject", "place"),
    [
        ("orders-value", Place("orders", "value")),
        ("orders-key", Place("orders", "key")),
        ("shop-orders-value", Place("shop-orders", "value")),
        ("orders-shop.Placed", Place("orders", "record")),
        ("a-b-shop.Placed", Place("a-b", "record")),
        ("shop.Placed", Place("shop.Placed", "record", has_topic=False)),
        ("returns-value", Place("returns-value", "record", has_topic=False)),
        ("-value", Place("-value", "record", has_topic=False)),
    ],
)
def test_a_subject_belongs_to_the_topic_that_the_strategies_of_serializers_name(
    subject: str, place: Place
) -> None:
    assert place_of(subject, TOPICS) == place


def version(text: str, type_: SchemaType = SchemaType.AVRO, number: int = 1, **properties: Any) -> Version:
    extra: dict[str, Any] = {"metadata": {"properties": properties}} if properties else {}
    definition = Definition(text=text, type=type_)
    return Version(subject="s", version=number, id=1, definition=definition, extra=extra)


def test_metadata_names_the_owner_and_the_schema_describes_itself() -> None:
    avro = version('{"type": "record", "name": "R", "doc": "placed orders", "fields": []}', owner="shop")
    found = description_of([avro])
    assert (found.owner, found.contact, found.text) == ("shop", None, "placed orders")
    json_schema = version('{"description": "a day"}', SchemaType.JSON, email="x@shop.example")
    found = description_of([json_schema])
    assert (found.owner, found.contact, found.text) == (None, "x@shop.example", "a day")


def test_metadata_of_any_shape_is_read() -> None:
    extras: list[dict[str, Any]] = [{"metadata": None}, {"metadata": []}, {"metadata": {"properties": 7}}, {}]
    for extra in extras:
        broken = Version(subject="s", version=1, id=1, definition=Definition(text="{not json"), extra=extra)
        assert description_of([broken]).owner is None
    assert description_of([version("{}", owner=7)]).owner is None


def test_versions_are_grouped_in_order() -> None:
    assert [each.version for each in latest_by_subject([version("1", number=2), version("2")])["s"]] == [1, 2]
