"""Records with schemas through the REST proxy's paths, read by Confluent's deserializers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.gateway.registry.other import OtherRegistry
from headrace.gateway.registry.registry import Registry
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from headrace.testing.ports import free_port
from tests.gateway.conftest import NewTopic, Serve, Serving
from tests.gateway.registry.serving import running_registry

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
OTHER = ORDER.replace('"id"', '"number"')
AVRO = "application/vnd.kafka.avro.v2+json"
JSON_SCHEMA = "application/vnd.kafka.jsonschema.v2+json"
PROTOBUF = "application/vnd.kafka.protobuf.v2+json"


@pytest.fixture
def gateway(bootstrap: str, new_topic: NewTopic, serve: Serve) -> Iterator[Serving]:
    registry = Registry.open(bootstrap, topic=f"_schemas-{new_topic()}")
    yield serve(registry=registry)
    registry.close()


def post(gateway: Serving, topic: str, content_type: str, **body: Any) -> tuple[int, dict[str, Any]]:
    response = gateway.post(f"/topics/{topic}", json.dumps(body), content_type)
    return response.status_code, response.json()


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [each.value() for each in read_committed(cluster, topic)]


def test_confluents_deserializers_read_what_is_written(
    gateway: Serving, cluster: Cluster, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": gateway.url}) as client:
        body = {"records": [{"value": {"id": 7}}, {"value": None, "key": {"id": 1}}]}
        status, answer = post(gateway, topic, AVRO, **body, value_schema=ORDER, key_schema=ORDER)
        assert (status, answer["key_schema_id"], answer["value_schema_id"]) == (200, 1, 1)
        first, tombstone = values(cluster, topic)
        assert AvroDeserializer(client)(first, context) == {"id": 7}
        assert tombstone is None
        assert sorted(client.get_subjects()) == [f"{topic}-key", f"{topic}-value"]

        other = new_topic(1)
        schema = '{"type": "object", "properties": {"id": {"type": "integer"}}}'
        assert (
            post(gateway, other, JSON_SCHEMA, records=[{"value": {"id": 7}}], value_schema=schema)[0] == 200
        )
        (data,) = values(cluster, other)
        assert JSONDeserializer(schema, schema_registry_client=client)(data, context) == {"id": 7}


def test_a_protobuf_message_has_its_index(gateway: Serving, cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    schema = 'syntax = "proto3"; message Order { int64 id = 1; }'
    assert post(gateway, topic, PROTOBUF, records=[{"value": {"id": 7}}], value_schema=schema)[0] == 200
    assert values(cluster, topic) == [b"\0\0\0\0\1\0\x08\x07"]


def test_a_registered_schema_is_used_by_its_id(
    gateway: Serving, cluster: Cluster, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    gateway.client.post("/subjects/orders/versions", json={"schema": ORDER}).raise_for_status()
    status, answer = post(gateway, topic, AVRO, records=[{"value": {"id": 7}}], value_schema_id="1")
    assert (status, answer["value_schema_id"]) == (200, 1)
    assert values(cluster, topic) == [b"\0\0\0\0\1\x0e"]


@pytest.mark.parametrize(
    ("body", "content_type", "expected", "problem"),
    [
        ({"records": [{"value": {"id": 7}}]}, AVRO, (422, 42202), "no value_schema"),
        ({"records": [{"key": 7}]}, AVRO, (422, 42201), "no key_schema"),
        ({"records": [{"value": 7}], "value_schema_id": 1}, AVRO, (422, 42205), "value of record 0"),
        ({"records": [{"value": 7}], "value_schema_id": 999}, AVRO, (422, 42205), "999 not found"),
        ({"records": [{"value": 7}], "value_schema_id": 1}, JSON_SCHEMA, (422, 42205), "schema 1 is AVRO"),
        ({"records": [{"value": 7}], "value_schema": '"nothing"'}, AVRO, (422, 42205), "unknown"),
        ({"records": [{"value": {"number": 7}}], "value_schema": OTHER}, AVRO, (408, 40801), "incompatible"),
        ({"records": [{"value": 7, "partition": "x"}], "value_schema_id": 1}, AVRO, (422, 422), "records"),
        ({"records": []}, AVRO, (422, 422), "no records"),
    ],
)
def test_a_body_that_is_wrong_is_rejected_and_nothing_is_written(
    gateway: Serving,
    cluster: Cluster,
    new_topic: NewTopic,
    body: dict[str, Any],
    content_type: str,
    expected: tuple[int, int],
    problem: str,
) -> None:
    topic = new_topic(1)
    gateway.client.post(f"/subjects/{topic}-value/versions", json={"schema": ORDER}).raise_for_status()
    status, answer = post(gateway, topic, content_type, **body)
    assert (status, answer["error_code"]) == expected
    assert problem in answer["message"]
    assert values(cluster, topic) == []


def test_a_body_with_more_records_than_allowed_registers_no_schema(
    bootstrap: str, serve: Serve, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    with contextlib.closing(Registry.open(bootstrap, topic=f"_schemas-{topic}")) as registry:
        gateway = serve(registry=registry, records_max=2)
        status, answer = post(gateway, topic, AVRO, records=[{"value": {"id": 7}}] * 3, value_schema=ORDER)
        assert (status, answer["message"]) == (422, "the body has more than 2 records")
        assert gateway.get("/subjects").json() == []


def test_an_unknown_topic_gets_no_schema(gateway: Serving) -> None:
    status, answer = post(gateway, "no topic", AVRO, records=[{"value": {"id": 7}}], value_schema=ORDER)
    assert status in (400, 404), answer
    assert gateway.get("/subjects").json() == []


def test_a_schema_that_was_deleted_meanwhile_is_registered_again(
    gateway: Serving, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    body: dict[str, Any] = {"records": [{"value": {"id": 7}}], "value_schema": ORDER}
    for _ in range(2):
        assert post(gateway, topic, AVRO, **body)[0] == 200
        gateway.client.delete(f"/subjects/{topic}-value").raise_for_status()
    assert post(gateway, topic, AVRO, **body)[0] == 200
    assert gateway.get("/subjects").json() == [f"{topic}-value"]


def test_the_description_has_the_content_types(gateway: Serving) -> None:
    post = gateway.get("/openapi.json").json()["paths"]["/topics/{topic}"]["post"]
    content = post["requestBody"]["content"]
    assert {AVRO, JSON_SCHEMA, PROTOBUF} < content.keys()
    assert "value_schema_id" in content[AVRO]["schema"]["properties"]


def test_schemas_of_another_registry_are_used(
    bootstrap: str, serve: Serve, cluster: Cluster, new_topic: NewTopic
) -> None:
    topic, other = new_topic(1), new_topic(1)
    context = SerializationContext(topic, MessageField.VALUE)
    with running_registry(bootstrap) as url, SchemaRegistryClient({"url": url}) as client:
        gateway = serve(registry=OtherRegistry(url))
        for _ in range(2):
            status, answer = post(gateway, topic, AVRO, records=[{"value": {"id": 7}}], value_schema=ORDER)
            assert (status, answer["value_schema_id"]) == (200, 1)
        assert post(gateway, other, AVRO, records=[{"value": {"id": 8}}], value_schema_id=1)[0] == 200
        written = [*values(cluster, topic), *values(cluster, other)]
        assert [AvroDeserializer(client)(each, context) for each in written] == [
            {"id": 7},
            {"id": 7},
            {"id": 8},
        ]
        assert client.get_subjects() == [f"{topic}-value"]
        for body, expected in (
            ({"value_schema_id": 1, "records": [{"value": 7}]}, (422, 42205)),
            ({"value_schema_id": 999, "records": [{"value": 7}]}, (422, 42205)),
            ({"value_schema": "no schema", "records": [{"value": 7}]}, (422, 42205)),
            ({"value_schema": OTHER, "records": [{"value": {"number": 7}}]}, (408, 40801)),
        ):
            status, answer = post(gateway, topic, AVRO, **body)
            assert (status, answer["error_code"]) == expected, answer
        assert gateway.get("/subjects").status_code == 404


def test_another_registry_that_is_unavailable_is_an_error_with_a_time_to_come_back(
    serve: Serve, new_topic: NewTopic
) -> None:
    gateway = serve(registry=OtherRegistry(f"http://127.0.0.1:{free_port()}"))
    body = json.dumps({"records": [{"value": {"id": 7}}], "value_schema": ORDER})
    response = gateway.post(f"/topics/{new_topic(1)}", body, AVRO)
    assert (response.status_code, response.json()["error_code"]) == (503, 50003)
    assert int(response.headers["Retry-After"]) > 0


def test_without_a_registry_the_content_types_are_not_supported(serve: Serve, new_topic: NewTopic) -> None:
    status, answer = post(serve(), new_topic(1), AVRO, records=[{"value": 7}])
    assert (status, "schema_registry" in answer["hint"]) == (415, True)
