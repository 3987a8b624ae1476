"""Records with the id of a registered schema, on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.cli.conftest import Headrace
from tests.compatibility.topic_contents import read_to_end
from tests.gateway.registry.serving import running_registry

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": ["null", "bytes"], "default": None},
    ],
}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; repeated string tags = 2; }'
JSON = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}

LINES = {
    "AVRO": '{"id":1,"price":"12.50","at":"2026-11-15T10:30:00Z","raw":"AP8="}',
    "PROTOBUF": '{"id":"1","tags":["a"]}',
    "JSON": '{"id": 1}',
}
TEXTS = {"AVRO": json.dumps(AVRO), "PROTOBUF": PROTO, "JSON": json.dumps(JSON)}


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[str]:
    with running_registry(bootstrap) as url:
        yield url


@pytest.mark.parametrize("kind", sorted(LINES))
def test_lines_of_json_become_records_of_the_schema_and_json_again(
    headrace: Headrace, topic: str, registry: str, bootstrap: str, kind: str
) -> None:
    client = SchemaRegistryClient({"url": registry})
    schema_id = client.register_schema(f"{topic}-value", Schema(TEXTS[kind], kind))
    options = ("--schema-subject", f"{topic}-value", "--registry", registry)
    headrace("produce", topic, *options, stdin=LINES[kind] + "\n")

    (record,) = read_to_end(bootstrap, topic)
    assert record.value()[:5] == b"\0" + schema_id.to_bytes(4)
    assert headrace("consume", topic, "--value-format", "registry", "--registry", registry).lines == [
        LINES[kind]
    ]
    if kind == "AVRO":
        found = AvroDeserializer(client)(record.value(), SerializationContext(topic, MessageField.VALUE))
        assert found["raw"] == b"\0\xff"

    rejected = headrace("produce", topic, *options, stdin='{"id": "x"}\n', code=1)
    assert "line 1: " in rejected.err


def test_record_without_a_schema_is_written_as_it_is_with_a_note(
    headrace: Headrace, topic: str, registry: str, producer: Producer
) -> None:
    producer.produce(topic, b"plain", key=b"\0\0\0\xff\xffk", partition=0)
    assert producer.flush(60) == 0
    both = ("--value-format", "registry", "--key-format", "registry", "--registry", registry)
    read = headrace("consume", topic, *both, "--format", "json")
    assert json.loads(read.out)["value"] == "plain"
    assert f"value of {topic}-0@0: its magic byte is 0x70" in read.err
    assert f"key of {topic}-0@0: the schema registry at {registry}: " in read.err


def test_registry_that_is_unavailable_ends_the_command(
    headrace: Headrace, topic: str, producer: Producer
) -> None:
    producer.produce(topic, b"\0\0\0\0\1x", partition=0)
    assert producer.flush(60) == 0
    ended = headrace(
        "consume", topic, "--value-format", "registry", "--registry", "http://127.0.0.1:1", code=1
    )
    assert "no schema registry answers at http://127.0.0.1:1" in ended.err
