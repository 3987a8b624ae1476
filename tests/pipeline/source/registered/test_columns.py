from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from headrace.pipeline import read_topic

Send = Callable[..., None]

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
WITH_NOTE = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}],
}


def test_records_of_old_latest_and_later_schemas_are_read_with_the_latest(
    spark: SparkSession, registry: str, client: SchemaRegistryClient, topic: str, send: Send
) -> None:
    def written(schema: Any, value: Any) -> bytes:
        serialize = AvroSerializer(client, json.dumps(schema))
        return serialize(value, SerializationContext(topic, MessageField.VALUE)) or b""

    send(topic, written(ORDER, {"id": 1}), written(WITH_NOTE, {"id": 2, "note": "two"}))
    rows = read_topic(spark, topic, format="avro-registry", registry=registry)
    bounded = read_topic(spark, topic, format="avro-registry", registry=registry, bounded=True)
    assert [(each.id, each.note) for each in bounded.collect()] == [(1, None), (2, "two")]
    bounded.explain()
