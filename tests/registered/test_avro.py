"""Avro values that are resolved to a reader's schema."""

from __future__ import annotations

import contextlib
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.registered.avro import as_json, decoder, has_choices
from headrace.registered.errors import BadRecord
from headrace.registered.schema import Referenced, SchemaText
from tests.registered.avro_schemas import Case, cases


def written(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def text(schema: Any, **options: Any) -> SchemaText:
    return SchemaText(text=json.dumps(schema), **options)


@given(cases(has_choices=False))
def test_values_are_those_that_fastavro_resolves(case: Case) -> None:
    writer, reader = case.texts()
    decode = decoder(writer.avro(), reader.avro())
    assert [decode(each) for each in case.records()] == with_values_of_defaults(case)


def with_values_of_defaults(case: Case) -> list[Any]:
    """fastavro takes the JSON of a default for its value, also where that has another type."""

    def corrected(value: Any) -> Any:
        match value:
            case dict():
                found = {name: corrected(each) for name, each in value.items()}
                return {**found, **({"new_bytes": b"\xff"} if "new_bytes" in found else {})}
            case list():
                return [corrected(each) for each in value]
        return value

    return [corrected(each) for each in case.expected()]


@given(case=cases(), data=st.data())
def test_damaged_bytes_are_a_bad_record_or_a_value(case: Case, data: st.DataObject) -> None:
    writer, reader = case.texts()
    decode = decoder(writer.avro(), reader.avro())
    record = case.records()[0]
    cut = record[: data.draw(st.integers(0, len(record)))] + data.draw(st.binary(max_size=8))
    with contextlib.suppress(BadRecord):  # and no other error
        assert isinstance(decode(cut), dict)


def test_defaults_have_the_values_of_their_types() -> None:
    inner = {
        "type": "record",
        "name": "Inner",
        "fields": [{"name": "a", "type": "int", "default": 3}, {"name": "b", "type": "bytes"}],
    }
    fields = [
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "default": "\u0004\u00d2",
        },
        {"name": "inner", "type": inner, "default": {"b": "\u00ff"}},
        {"name": "list", "type": {"type": "array", "items": "Inner"}, "default": [{"b": "x"}]},
        {"name": "float", "type": "double", "default": 1},
    ]
    empty, full = ({"type": "record", "name": "R", "fields": each} for each in ([], fields))
    assert decoder(text(empty).avro(), text(full).avro())(b"") == {
        "price": Decimal("12.34"),
        "inner": {"a": 3, "b": b"\xff"},
        "list": [{"a": 3, "b": b"x"}],
        "float": 1.0,
    }


def test_schema_contains_the_types_of_its_references_once() -> None:
    address = text({"type": "record", "name": "shop.Address", "fields": [{"name": "city", "type": "string"}]})
    order = {
        "type": "record",
        "name": "shop.Order",
        "fields": [{"name": "to", "type": "Address"}, {"name": "back", "type": ["null", "Address"]}],
    }
    schema = text(order, referenced=(Referenced(name="shop.Address", schema=address),)).avro()
    assert [each["type"] for each in as_json(schema)["fields"]] == [
        {"type": "record", "name": "shop.Address", "fields": [{"name": "city", "type": "string"}]},
        ["null", "shop.Address"],
    ]
    value = {"to": {"city": "Graz"}, "back": {"city": "Linz"}}
    assert decoder(schema, schema)(written(as_json(schema), value)) == value


@pytest.mark.parametrize(
    ("logical", "kept"),
    [
        ({"logicalType": "decimal", "precision": 4, "scale": 2}, True),
        ({"logicalType": "decimal", "precision": 39}, False),
        ({"logicalType": "decimal", "precision": 2, "scale": 3}, False),
        ({"logicalType": "decimal"}, False),
        ({"logicalType": "made-up"}, False),
    ],
)
def test_logical_type_that_is_not_valid_is_that_of_the_bytes(logical: dict[str, Any], kept: bool) -> None:
    schema = text({"type": "bytes", **logical}).avro()
    assert isinstance(decoder(schema, schema)(written("bytes", b"\1")), Decimal) == kept


def test_writer_that_the_reader_cannot_read_is_a_bad_record() -> None:
    number, words = text("int").avro(), text({"type": "array", "items": "string"}).avro()
    with pytest.raises(BadRecord):
        decoder(number, words)(written("int", 1))
    assert not has_choices(number)
