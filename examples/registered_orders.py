"""Orders with the schemas of a registry: a service writes Avro, a job reads it without a schema in its code, and writes
Protobuf for others. A new version of the service adds a field while the topic has records of the old one.

python examples/registered_orders.py
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace import Broker
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Topic

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
WITH_PRICE = {**ORDER, "fields": [*ORDER["fields"], {"name": "price", "type": "double", "default": 0.0}]}


@contextlib.contextmanager
def gateway(bootstrap: str) -> Iterator[str]:
    """The address of `headrace gateway`, which has a registry."""
    command = [
        sys.executable,
        "-m",
        "headrace",
        "gateway",
        "--listen",
        "127.0.0.1:0",
        "--bootstrap",
        bootstrap,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()


def write(bootstrap: str, registry: str, schema: object, *orders: dict[str, object]) -> None:
    """As any service does it, with the serializer of its client."""
    serialize = AvroSerializer(SchemaRegistryClient({"url": registry}), json.dumps(schema))
    producer = Producer({"bootstrap.servers": bootstrap})
    for order in orders:
        producer.produce("orders", serialize(order, SerializationContext("orders", MessageField.VALUE)))
    producer.produce("orders", b"id=4 item=salt")  # and one that a script has written
    producer.flush()


def main() -> None:
    with Broker() as broker, gateway(broker.bootstrap) as registry, tempfile.TemporaryDirectory() as folder:
        write(broker.bootstrap, registry, ORDER, {"id": 1, "item": "tea", "at": 1_772_359_200_000})
        write(
            broker.bootstrap,
            registry,
            WITH_PRICE,
            {"id": 2, "item": "milk", "at": 1_772_359_201_000, "price": 1.9},
        )

        spark = session("registered", bootstrap=broker.bootstrap, registry=registry, data_dir=folder)
        orders = read_topic(spark, "orders", format="avro-registry", event_time="at")
        print(
            "columns:", ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in orders.schema[:4])
        )
        paid = orders.selectExpr("id", "item", "price > 0 AS is_paid")
        running = Job("paid", paid, Topic("paid", key="id", format="protobuf-registry"), mode="batch").start()
        running.wait()
        print(f"{running.status().dead_letters} dead letters")

        for row in read_topic(spark, "paid", format="protobuf-registry", bounded=True).collect():
            print(f"  {row['item']}: {'paid' if row['is_paid'] else 'not paid'}, key {row['_key']}")
        spark.stop()
        print(SchemaRegistryClient({"url": registry}).get_latest_version("paid-value").schema.schema_str)


if __name__ == "__main__":
    main()
