"""A schema of any type."""

from __future__ import annotations

import pytest

from headrace.schemas.definition import Definition, SchemaType
from headrace.schemas.errors import InvalidSchema
from headrace.schemas.parsing import Referenced, incompatibilities, parse


def test_avro_keeps_its_text_without_white_space() -> None:
    parsed = parse(Definition(text='{"type": "fixed", "size": 4, "name": "F", "namespace": "a"}'))
    assert parsed.text == '{"type":"fixed","size":4,"name":"F","namespace":"a"}'
    assert parsed.normalized == '{"type":"fixed","name":"a.F","size":4}'


def test_avro_uses_the_names_of_its_references() -> None:
    money = parse(Definition(text='{"type": "fixed", "size": 4, "name": "Money"}'))
    price = Definition(text='{"type": "array", "items": "Money"}')
    assert parse(price, [Referenced("Money", money)]).text == '{"type":"array","items":"Money"}'
    with pytest.raises(InvalidSchema, match="'Money' is unknown"):
        parse(price)


def test_json_schema_keeps_its_text_without_white_space() -> None:
    parsed = parse(Definition(text='{ "type": "object", "title": "a" }', type=SchemaType.JSON))
    assert (parsed.text, parsed.normalized) == (
        '{"type":"object","title":"a"}',
        '{"title":"a","type":"object"}',
    )


def test_protobuf_keeps_its_text_and_is_normalized_to_another_one() -> None:
    text = 'syntax = "proto3"; message M { int32 a = 1; } // a comment'
    parsed = parse(Definition(text=text, type=SchemaType.PROTOBUF))
    assert parsed.text == text
    assert parsed.normalized == 'syntax = "proto3";\nmessage M {\n  int32 a = 1;\n}\n'


def test_schemas_of_different_types_are_incompatible() -> None:
    one, two = parse(Definition(text='"int"')), parse(Definition(text="true", type=SchemaType.JSON))
    assert [each.kind for each in incompatibilities(one, two)] == ["SCHEMA_TYPE_MISMATCH"]
    with pytest.raises(InvalidSchema, match="the reference a is AVRO"):
        parse(Definition(text="true", type=SchemaType.JSON), [Referenced("a", one)])


def test_a_chain_of_types_that_is_too_long_to_compare_is_incompatible() -> None:
    types = ["int", *(f"R{n}" for n in range(2_000))]
    record = '{{"type": "record", "name": "R{}", "fields": [{{"name": "f", "type": "{}"}}]}}'
    records = [record.format(n, each) for n, each in enumerate(types[:-1])]
    chain = parse(Definition(text=f"[{', '.join(records)}]"))
    last = parse(Definition(text='{"type": "array", "items": "R1999"}'), [Referenced("chain", chain)])
    assert [each.kind for each in incompatibilities(last, last)] == ["TOO_COMPLEX"]


def test_avro_is_compared_by_its_schema_resolution() -> None:
    one, two = parse(Definition(text='"int"')), parse(Definition(text='"long"'))
    assert incompatibilities(two, one) == []
    assert [each.kind for each in incompatibilities(one, two)] == ["TYPE_MISMATCH"]
