from __future__ import annotations

import pytest

from headrace.schemas.definition import Definition, SchemaType
from headrace.schemas.encoding import encoder
from headrace.schemas.errors import DoesNotFit
from headrace.schemas.parsing import parse


@pytest.mark.parametrize(
    ("type_", "text", "value", "data"),
    [
        (SchemaType.AVRO, '"long"', 7, b"\x0e"),
        (SchemaType.JSON, '{"type": "integer"}', 7, b"7"),
        (SchemaType.PROTOBUF, 'syntax = "proto3"; message M { int64 a = 1; }', {"a": 7}, b"\x08\x07"),
    ],
)
def test_a_value_is_encoded_with_a_schema_of_any_type(
    type_: SchemaType, text: str, value: object, data: bytes
) -> None:
    encode = encoder(parse(Definition(text=text, type=type_)))
    assert encode(value) == data
    with pytest.raises(DoesNotFit):
        encode("x")
