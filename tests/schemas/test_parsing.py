"""A schema of any type."""

from __future__ import annotations

import pytest

from headrace.schemas.definition import Definition
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


def test_avro_is_compared_by_its_schema_resolution() -> None:
    one, two = parse(Definition(text='"int"')), parse(Definition(text='"long"'))
    assert incompatibilities(two, one) == []
    assert [each.kind for each in incompatibilities(one, two)] == ["TYPE_MISMATCH"]
