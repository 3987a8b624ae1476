"""Topics that Confluent's serializers write, read without a schema in the code."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from headrace.dead_letters import REASON_HEADER
from headrace.pipeline import Job, read_topic
from headrace.pipeline.sinks import Discard
from headrace.registered.schema import SchemaText
from tests.compatibility.topic_contents import read_to_end

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


def framed(serializer: Any, topic: str, value: Any, field: str = MessageField.VALUE) -> bytes:
    return serializer(value, SerializationContext(topic, field)) or b""


def test_avro_of_old_latest_and_later_schemas_becomes_the_columns_of_the_latest_and_the_rest_dead_letters(
    spark: SparkSession,
    registry: str,
    client: SchemaRegistryClient,
    topic: str,
    name: str,
    send: Send,
    bootstrap: str,
) -> None:
    def written(schema: Any, value: Any) -> bytes:
        return framed(AvroSerializer(client, json.dumps(schema)), topic, value)

    old, latest = written(ORDER, VALUE), written(LATER, {**VALUE, "id": 2**40, "note": "x"})
    rows = read_topic(spark, topic, format="avro-registry", registry=registry)
    later = {
        **LATER,
        "fields": [*LATER["fields"], {"name": "extra", "type": ["null", "int"], "default": None}],
    }
    send(topic, old, latest, written(later, {**VALUE, "id": 3, "note": None, "extra": 7}), None)
    other = SchemaText(text='{"type": "record", "name": "Other", "fields": []}')
    not_an_order = client.register_schema(f"other-{name}-value", Schema(other.text, "AVRO"))
    send(
        topic,
        b"\1",
        b"\0\0\0\0",
        b"{}{}{}",
        b"\0" + (2**31).to_bytes(4) + b"abc",
        old[:-6],
        written(later, {**VALUE, "extra": 1})[:-3],
    )
    send(topic, b"\0" + not_an_order.to_bytes(4))
    Job(name, rows, Discard(), mode="batch").start().wait()
    found = read_topic(spark, topic, format="avro-registry", registry=registry, bounded=True)
    assert found.columns[:9] == [*[each["name"] for each in later["fields"]]]
    shown = {row["_offset"]: tuple(row)[:8] for row in found.orderBy("_offset").collect()}
    assert shown == {0: ROW, 1: (2**40, *ROW[1:7], "x"), 2: (3, *ROW[1:7], None), 3: (None,) * 8}
    reasons = [dict(each.headers)[REASON_HEADER].decode() for each in read_to_end(bootstrap, f"dlq.{name}")]
    assert reasons[:4] == [
        "1 bytes are too few for a magic byte and the id of a schema",
        "4 bytes are too few for a magic byte and the id of a schema",
        "its magic byte is 0x7b, and a record with the id of a schema begins with 0x00",
        f"the registry at {registry} has no schema with id {2**31}",
    ]
    assert reasons[4].startswith("not Avro of its schema: ")
    assert len(reasons) == 7
