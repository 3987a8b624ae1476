"""The catalogue of a real cluster."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from headrace.errors import HeadraceError
from headrace.gateway.catalog import source as source_module
from headrace.gateway.catalog.jobs import JOBS_TOPIC
from headrace.gateway.catalog.model import EventType
from headrace.gateway.catalog.source import REMEMBERED_MS, CatalogSource
from headrace.gateway.registry.changes import Wanted
from headrace.gateway.registry.registry import Registry
from headrace.kafka.cluster import Cluster, Partition
from headrace.schemas.definition import Definition, Reference, SchemaType
from headrace.testing.manual_clock import ManualClock
from tests.gateway.conftest import NewTopic

ORDER = json.dumps(
    {"type": "record", "name": "Order", "doc": "placed orders", "fields": [{"name": "id", "type": "long"}]}
)


def register(
    registry: Registry, subject: str, text: str, *references: Reference, owner: str | None = None
) -> None:
    kind = SchemaType.PROTOBUF if "syntax" in text else SchemaType.AVRO
    wanted = Wanted(
        definition=Definition(text=text, type=kind, references=references),
        extra={"metadata": {"properties": {"owner": owner}}} if owner else {},
    )
    registry.register(subject, wanted, normalize=False)


def found(source: CatalogSource, name: str) -> EventType | None:
    return next((each for each in source.catalog().event_types if each.name == name), None)


def test_a_topic_has_its_schema_owner_readers_and_writers(
    cluster: Cluster, registry: Registry, new_topic: NewTopic
) -> None:
    topic, other = new_topic(), new_topic()
    register(registry, f"{topic}-value", ORDER, owner="team shop")
    cluster.commit(f"{topic}-billing", {Partition(topic, 0): 0})
    cluster.create_topic(JOBS_TOPIC, partitions=1, exist_ok=True)
    producer = Producer(cluster.client_config())
    report = {"name": f"{topic}-job", "sources": [f"topic {other}"], "target": f"topic {topic}"}
    producer.produce(JOBS_TOPIC, json.dumps(report))
    producer.produce(JOBS_TOPIC, b"not a report")
    producer.produce(JOBS_TOPIC, None)
    assert producer.flush(60) == 0

    event_type = CatalogSource(cluster, registry, ManualClock(0)).event_type(topic)

    assert (event_type.owner, event_type.description, event_type.partitions) == (
        "team shop",
        "placed orders",
        3,
    )
    (schema,) = event_type.schemas
    assert (schema.subject, schema.part, schema.versions) == (f"{topic}-value", "value", (1,))
    assert schema.compatibility == "BACKWARD"
    assert [each.path for each in schema.fields or ()] == ["id"]
    assert list(map(str, event_type.read_by)) == [f"group {topic}-billing"]
    assert list(map(str, event_type.written_by)) == [f"job {topic}-job"]


def test_fields_of_references_are_resolved_and_a_schema_that_cannot_be_parsed_is_a_problem(
    cluster: Cluster, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(registry, "money", 'syntax = "proto3"; message Money { int64 cents = 1; }')
    reference = Reference("money.proto", "money", 1)
    text = 'syntax = "proto3"; import "money.proto"; message Order { Money price = 1; }'
    register(registry, "order", text, reference)
    source = CatalogSource(cluster, registry, ManualClock(0))
    (schema,) = source.event_type("order").schemas
    assert [each.path for each in schema.fields or ()] == ["price", "price.cents"]
    assert schema.references == (reference,)

    def broken(_version: object) -> None:
        raise HeadraceError("protoc is missing", hint="")

    monkeypatch.setattr(registry, "parsed", broken)
    (schema,) = source.event_type("order").schemas
    assert (schema.fields, schema.problem) == (None, "protoc is missing")


def test_the_catalogue_is_remembered_for_a_moment(
    cluster: Cluster, registry: Registry, new_topic: NewTopic
) -> None:
    clock = ManualClock(0)
    source = CatalogSource(cluster, registry, clock)
    source.catalog()
    topic = new_topic()
    assert found(source, topic) is None
    clock.advance_ms(REMEMBERED_MS + 1)
    assert found(source, topic) is not None


def test_what_exceeds_a_bound_is_a_problem_and_the_rest_is_there(
    cluster: Cluster, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    for number in range(2):
        cluster.commit(f"{topic}-{number}", {Partition(topic, 0): 0})
    monkeypatch.setattr(source_module, "GROUPS_MAX", 1)
    source = CatalogSource(cluster, None, ManualClock(0))
    assert any("only 1 of" in each for each in source.catalog().problems)
    assert found(source, topic) is not None


def test_a_part_that_cannot_be_read_is_a_problem(
    cluster: Cluster, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()

    def failing(*_arguments: object) -> None:
        raise HeadraceError("the broker does not know share groups", hint="")

    monkeypatch.setattr(source_module, "list_share_groups", failing)
    source = CatalogSource(cluster, None, ManualClock(0))
    assert "queues are missing: the broker does not know share groups" in source.catalog().problems
    assert found(source, topic) is not None


def test_an_unknown_name_is_an_error_with_a_hint(cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic()
    with pytest.raises(HeadraceError) as raised:
        CatalogSource(cluster, None, ManualClock(0)).event_type(f"{topic}x")
    assert topic in raised.value.hint
