"""Records with the id of a schema as JSON, and back. tests/cli/records has the round trip through a topic."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.registered.client import RegistryClient
from headrace.registered.errors import BadRecord
from headrace.registered.schema import RegisteredSchema, SchemaText
from headrace.registered.serde import RecordReader, record_writer
from headrace.schemas.definition import Definition, SchemaType

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "int"}]}
FIELDS: list[tuple[Any, Any]] = [
    ("double", 1.5),
    ({"type": "int", "logicalType": "date"}, "2026-11-15"),
    ({"type": "long", "logicalType": "timestamp-micros"}, "2026-11-15T10:30:00.123456Z"),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, "2026-11-15T10:30:00"),
    ({"type": "int", "logicalType": "time-millis"}, "10:30:00"),
    ({"type": "string", "logicalType": "uuid"}, "6f9619ff-8b86-4011-b42d-00c04fc964ff"),
    ({"type": "fixed", "name": "F", "size": 2}, "AP8="),
    ({"type": "array", "items": INNER}, [{"n": 1}]),
    ({"type": "map", "values": ["null", "Inner"]}, {"a": None, "b": {"n": 2}}),
    (["null", "long", "string", {"type": "enum", "name": "E", "symbols": ["A"]}], "A"),
    (["null", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}], "-1.25"),
]


@pytest.fixture
def reader(registry: str) -> RecordReader:
    return RecordReader(RegistryClient(registry))


def registered(registry: str, name: str, text: str, kind: SchemaType) -> RegisteredSchema:
    client = RegistryClient(registry)
    client.register(name, Definition(text=text, type=kind))
    return client.version(name)


def test_every_type_of_avro_has_a_form_in_json(registry: str, reader: RecordReader) -> None:
    fields = [{"name": f"f{number}", "type": each} for number, (each, _) in enumerate(FIELDS)]
    schema = registered(
        registry, "every-type", json.dumps({"type": "record", "name": "R", "fields": fields}), SchemaType.AVRO
    )
    document = {f"f{number}": value for number, (_, value) in enumerate(FIELDS)}
    record = record_writer(schema)(json.dumps(document).encode())
    assert json.loads(reader.to_json(record)) == document


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        (
            SchemaType.AVRO,
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}',
            b'{"a": "x"}',
        ),
        (SchemaType.AVRO, '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}', b"{}"),
        (SchemaType.AVRO, '["null", "int"]', b'"x"'),
        (SchemaType.AVRO, '"bytes"', b'"?"'),
        (SchemaType.AVRO, '"int"', b"{"),
        (SchemaType.PROTOBUF, 'syntax = "proto3"; message A { int32 a = 1; }', b'{"b": 1}'),
        (SchemaType.PROTOBUF, 'syntax = "proto3"; message A { int32 a = 1; }', b"\xff"),
        (SchemaType.JSON, '{"type": "integer"}', b'"x"'),
    ],
)
def test_line_that_is_not_of_the_schema_is_bad(kind: SchemaType, text: str, line: bytes) -> None:
    write = record_writer(RegisteredSchema(id=1, schema=SchemaText(text=text, type=kind)))
    with pytest.raises(BadRecord):
        write(line)


def test_damaged_record_is_bad(registry: str, reader: RecordReader) -> None:
    for kind, text, body in (
        (SchemaType.AVRO, '"string"', b"\x06a"),
        (SchemaType.PROTOBUF, 'syntax = "proto3"; message A { string a = 1; }', b"\0\x0a\x05"),
        (SchemaType.JSON, "{}", b"{"),
    ):
        schema = registered(registry, f"damaged-{kind}", text, kind)
        with pytest.raises(BadRecord):
            reader.to_json(b"\0" + schema.id.to_bytes(4) + body)
