"""Topics that Confluent's serializers write, read without a schema in the code."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql import SparkSession

from headrace.dead_letters import REASON_HEADER
from headrace.errors import HeadraceError
from headrace.pipeline import BadSource, Job, read_topic
from headrace.pipeline.source.registered.columns import decoded
from headrace.pipeline.source.registered.decoding import Decoding
from headrace.pipeline.source.registered.subjects import ReaderSchema
from headrace.registered.framing import prefix
from headrace.registered.protobuf import Messages
from headrace.registered.schema import RegisteredSchema, SchemaText
from headrace.schemas.definition import SchemaType
from tests.compatibility.topic_contents import read_to_end
from tests.pipeline.journal_sink import Journal
from tests.registered.avro_schemas import Case, cases

Send = Callable[..., None]

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "to",
            "type": [
                "null",
                {"type": "record", "name": "To", "fields": [{"name": "city", "type": "string"}]},
            ],
        },
    ],
}
LATER: dict[str, Any] = {
    **ORDER,
    "fields": [
        {"name": "id", "type": "long"},
        *ORDER["fields"][1:],
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
AT = datetime(2026, 11, 15, 10, 30, 0, 123_000, tzinfo=UTC)
VALUE = {
    "id": 1,
    "price": Decimal("12.50"),
    "at": AT,
    "day": date(1, 2, 3),
    "state": "PAID",
    "tags": ["a"],
    "to": {"city": "Graz"},
}
ROW = (1, Decimal("12.50"), AT.replace(tzinfo=None), date(1, 2, 3), "PAID", ["a"], ("Graz",), None)


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Item { string name = 1; uint32 count = 2; }
message Order {
  enum State { NEW = 0; PAID = 1; }
  int64 id = 1;
  optional string note = 2;
  State state = 3;
  repeated Item items = 4;
  map<string, double> prices = 5;
  google.protobuf.Timestamp at = 6;
  oneof payment { string card = 7; Item voucher = 8; }
  Order before = 9;
  message Line { int32 number = 1; }
}
"""
JSON_SCHEMA: dict[str, Any] = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "to": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/To"}]},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {},
    },
    "required": ["id"],
    "definitions": {"To": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def framed(serializer: Any, topic: str, value: Any, field: MessageField = MessageField.VALUE) -> bytes:
    return serializer(value, SerializationContext(topic, field)) or b""


def messages_of(text: str) -> Messages:
    return Messages(SchemaText(text=text, type=SchemaType.PROTOBUF).protobuf())


def reasons(bootstrap: str, topic: str) -> list[str]:
    letters = read_to_end(bootstrap, topic)
    return [dict(each.headers())[REASON_HEADER].decode() for each in letters]


def test_avro_of_old_latest_and_later_schemas_has_the_columns_of_the_latest_and_all_else_becomes_dead_letters(
    spark: SparkSession,
    registry: str,
    client: SchemaRegistryClient,
    topic: str,
    name: str,
    send: Send,
    bootstrap: str,
    tmp_path: Path,
) -> None:
    def written(schema: Any, value: Any) -> bytes:
        return framed(AvroSerializer(client, json.dumps(schema)), topic, value)

    old, latest = written(ORDER, VALUE), written(LATER, {**VALUE, "id": 2**40, "note": "x"})
    rows = read_topic(spark, topic, format="avro-registry", registry=registry)
    before = read_topic(spark, topic, format="avro-registry", registry=registry, version=1)
    extra = {"name": "extra", "type": ["null", "int"], "default": None}
    later = {**LATER, "fields": [*LATER["fields"], extra]}
    send(topic, old, latest, written(later, {**VALUE, "id": 3, "note": None, "extra": 7}), None)
    other = client.register_schema(
        f"other-{name}", Schema('{"type": "record", "name": "Other", "fields": []}', "AVRO")
    )
    unknown = b"\0" + (2**31).to_bytes(4) + b"abc"
    damaged = [b"\1", b"{}{}{}", unknown, old[:-6], written(later, {**VALUE, "extra": 1})[:-3]]
    send(topic, *damaged, b"\0" + other.to_bytes(4))

    Job(
        name, rows.select("id", "note", "_offset"), Journal(tmp_path / "journal"), mode="batch"
    ).start().wait()

    assert before.columns[-7] == "to"
    assert rows.columns[:8] == [each["name"] for each in LATER["fields"]]
    bounded = read_topic(spark, topic, format="avro-registry", registry=registry, bounded=True)
    found = {row["_offset"]: tuple(row)[:9] for row in bounded.collect()}
    assert found == {
        0: (*ROW, None),
        1: (2**40, *ROW[1:7], "x", None),
        2: (3, *ROW[1:7], None, 7),
        3: (None,) * 9,
    }
    shown = reasons(bootstrap, f"dlq.{name}")
    assert shown[:3] == [
        "1 bytes are too few for a magic byte and the id of a schema",
        "its magic byte is 0x7b, and a record with the id of a schema begins with 0x00",
        f"the registry at {registry} has no schema with id {2**31}",
    ]
    assert [each.partition(":")[0] for each in shown[3:]] == ["not Avro of its schema"] * 3


def test_protobuf_is_read_by_field_numbers_with_the_message_that_the_source_names(
    spark: SparkSession,
    registry: str,
    client: SchemaRegistryClient,
    topic: str,
    name: str,
    send: Send,
    bootstrap: str,
    tmp_path: Path,
) -> None:
    messages = messages_of(PROTO)
    order, line = messages.kind("shop.Order"), messages.kind("shop.Order.Line")
    full = order(
        id=2**40, state="PAID", items=[{"name": "tea", "count": 2**32 - 1}], prices={"tea": 1.5}, card="1234"
    )
    full.at.FromDatetime(AT)
    full.before.id = 7
    serialize = ProtobufSerializer(order, client)
    send(topic, framed(serialize, topic, full), framed(serialize, topic, order()))
    rows = read_topic(spark, topic, format="protobuf-registry", registry=registry, message="Order")
    # A later schema, whose field has another name and the same number.
    renamed = messages_of(PROTO.replace("optional string note = 2", "optional string remark = 2")).kind(
        "shop.Order"
    )
    client.set_compatibility(f"{topic}-value", level="NONE")
    send(topic, framed(ProtobufSerializer(renamed, client), topic, renamed(id=3, remark="later")))
    good = framed(serialize, topic, full)
    send(topic, framed(ProtobufSerializer(line, client), topic, line(number=1)), good[:-2], good[:6])
    Job(name, rows.select("id", "note"), Journal(tmp_path / "journal"), mode="batch").start().wait()

    found = read_topic(
        spark, topic, format="protobuf-registry", registry=registry, message="Order", version=1, bounded=True
    )
    first, empty, later = [tuple(row)[:9] for row in found.orderBy("_offset").collect()]
    assert first[:8] == (
        2**40,
        None,
        "PAID",
        [("tea", 2**32 - 1)],
        {"tea": 1.5},
        AT.replace(tzinfo=None),
        "1234",
        None,
    )
    assert json.loads(first[8]) == {"id": "7"}
    assert empty == (0, None, "NEW", [], {}, None, None, None, None)
    assert later[:2] == (3, "later")
    assert reasons(bootstrap, f"dlq.{name}") == [
        "it is a shop.Order.Line, and the source reads shop.Order",
        "not Protobuf of shop.Order: the message is damaged",
        "it ends within the path to its message",
    ]
    with pytest.raises(BadSource, match="no message Ordre"):
        read_topic(spark, topic, format="protobuf-registry", registry=registry, message="Ordre")


def test_json_is_checked_against_the_schema_that_it_was_written_with(
    spark: SparkSession,
    registry: str,
    client: SchemaRegistryClient,
    topic: str,
    name: str,
    send: Send,
    bootstrap: str,
    tmp_path: Path,
) -> None:
    serialize = JSONSerializer(json.dumps(JSON_SCHEMA), client)
    full = {
        "id": 1,
        "at": "2026-11-15T11:30:00.123+01:00",
        "tags": ["a"],
        "to": {"city": "Graz"},
        "counts": {"a": 1},
        "any": [1, "x"],
    }
    send(topic, framed(serialize, topic, full), framed(serialize, topic, {"id": 2, "to": None, "other": 1}))
    prefix = framed(serialize, topic, {"id": 3})[:5]
    send(
        topic,
        prefix + b'{"id": "four"}',
        prefix + b"{",
        prefix + b'{"id": 5, "at": "tomorrow"}',
        prefix + b"{}",
    )
    rows = read_topic(spark, topic, format="json-registry", registry=registry)
    Job(name, rows.select("id"), Journal(tmp_path / "journal"), mode="batch").start().wait()

    found = read_topic(spark, topic, format="json-registry", registry=registry, bounded=True).orderBy(
        "_offset"
    )
    assert [tuple(row)[:6] for row in found.collect()] == [
        (1, AT.replace(tzinfo=None), ["a"], ("Graz",), {"a": 1}, '[1,"x"]'),
        (2, None, None, None, None, None),
    ]
    shown = reasons(bootstrap, f"dlq.{name}")
    assert shown[0] == 'its JSON violates the schema: /id: "four" is not of type "integer"'
    assert shown[1].startswith("not JSON: ")
    assert shown[2:] == [
        'at: "tomorrow" is not a date-time',
        'its JSON violates the schema: "id" is a required property',
    ]


def test_keys_are_decoded_and_a_bad_one_makes_a_dead_letter(
    spark: SparkSession,
    registry: str,
    client: SchemaRegistryClient,
    topic: str,
    name: str,
    send: Send,
    bootstrap: str,
    tmp_path: Path,
) -> None:
    key_schema = '{"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}'
    key = framed(AvroSerializer(client, key_schema), topic, {"id": 9}, MessageField.KEY)
    value = framed(AvroSerializer(client, '"string"'), topic, "a text")
    send(topic, value, key=key)
    send(topic, value, key=b"{}")
    send(topic, value)
    rows = read_topic(spark, topic, format="avro-registry", registry=registry, key="avro-registry")
    Job(name, rows.select("value", "_key.id"), Journal(tmp_path / "journal"), mode="batch").start().wait()
    found = read_topic(
        spark, topic, format="avro-registry", registry=registry, key="avro-registry", bounded=True
    ).orderBy("_offset")
    assert [(row["value"], row["_key"] and row["_key"]["id"]) for row in found.collect()] == [
        ("a text", 9),
        ("a text", None),
    ]
    assert reasons(bootstrap, f"dlq.{name}") == [
        "key: 2 bytes are too few for a magic byte and the id of a schema"
    ]


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        ({"format": "avro-registry"}, "not found", "The subject is"),
        ({"format": "avro-registry", "subject": "{name}-json"}, "is JSON", 'format="json-registry"'),
        ({"format": "json-registry", "subject": "{name}-json", "version": 9}, "Version 9", "subject"),
        ({"format": "json-registry", "schema": "id INT"}, "that of a registry", "do not set schema"),
        (
            {"format": "json", "schema": "id INT", "subject": "x"},
            "choose a schema of a registry",
            "set format",
        ),
        ({"format": "avro-registry", "registry": "127.0.0.1:1"}, "is not the address", "http://HOST:PORT"),
        (
            {"format": "avro-registry", "registry": "http://ann:secret@127.0.0.1:1"},
            "http://127.0.0.1:1: ",
            "start it",
        ),
        ({"format": "avro-registry", "message": "x"}, "has no messages", "protobuf-registry"),
    ],
)
def test_source_that_no_schema_fits_is_rejected_with_the_reason(
    spark: SparkSession,
    registry: str,
    client: SchemaRegistryClient,
    name: str,
    arguments: dict[str, Any],
    problem: str,
    hint: str,
) -> None:
    client.register_schema(f"{name}-json", Schema('{"type": "object"}', "JSON"))
    options: dict[str, Any] = {"registry": registry}
    options |= {
        key: each.format(name=name) if isinstance(each, str) else each for key, each in arguments.items()
    }
    with pytest.raises(HeadraceError) as raised:
        read_topic(spark, name, **options)
    assert problem in raised.value.message
    assert hint in raised.value.hint
    assert "secret" not in str(raised.value)


@pytest.mark.slow
@settings(
    max_examples=60,
    phases=[Phase.generate],  # each try takes a second, and shrinking takes hundreds
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases(has_choices=False))
def test_spark_reads_avro_as_python_does(spark: SparkSession, case: Case) -> None:
    writer, reader = case.texts()
    schema = ReaderSchema(
        registry="http://127.0.0.1:1",
        registered=RegisteredSchema(id=2, schema=reader),
        writers=(RegisteredSchema(id=1, schema=writer),),
    )
    found = decoded(schema, "value", stage="stage")
    assert [name for name, _ in found.stages] == ["stage_is_own", "stage_spark", "stage_python"]
    records = [prefix(1) + each for each in case.records()]
    rows = spark.createDataFrame([(each,) for each in records], "value BINARY").coalesce(1)
    for name, column in found.stages:
        rows = rows.withColumn(name, column)
    by_spark = rows.select(found.whole.alias("row"), found.problem.alias("problem")).toArrow()
    assert by_spark["problem"].null_count == len(records)
    by_python = Decoding(schema).rows(records).field("row")
    # Java does not keep the order of a map.
    found_rows, expected = (each.to_pylist(maps_as_pydicts="strict") for each in (by_spark["row"], by_python))
    assert found_rows == expected
