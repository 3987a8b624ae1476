"""Another registry over HTTP: here Headrace's own, which has the API of Confluent's."""

from __future__ import annotations

import json

import pytest

from headrace.clock import SystemClock
from headrace.gateway.catalog.source import CatalogSource
from headrace.gateway.registry.changes import Wanted
from headrace.gateway.registry.errors import RegistryError
from headrace.gateway.registry.other import OtherRegistry
from headrace.gateway.registry.registry import Registry
from headrace.kafka.cluster import Cluster
from headrace.schemas.definition import Definition, Reference, SchemaType
from headrace.testing.ports import free_port

pytestmark = pytest.mark.timeout(120)

MONEY = Definition(text='syntax = "proto3"; message Money { int64 cents = 1; }', type=SchemaType.PROTOBUF)
ORDER = Definition(
    text='syntax = "proto3"; import "money.proto"; message Order { Money price = 1; }',
    type=SchemaType.PROTOBUF,
    references=(Reference("money.proto", "money", 1),),
)
NUMBER, TEXT = Definition(text='"long"'), Definition(text='"string"')


@pytest.fixture
def other(url: str) -> OtherRegistry:
    return OtherRegistry(url)


def test_schemas_are_registered_and_read_with_their_references(
    other: OtherRegistry, registry: Registry
) -> None:
    other.register("money", Wanted(definition=MONEY), normalize=False)
    order = other.register("orders-value", Wanted(definition=ORDER), normalize=False)
    assert order.id == registry.version("orders-value", "latest").id == 2
    (found,) = other.of_id(order.id)
    assert (found.id, found.definition.type) == (2, SchemaType.PROTOBUF)
    assert (
        other.parsed(found).canonical == registry.parsed(registry.version("orders-value", "latest")).canonical
    )


def test_the_list_has_what_the_registry_has(other: OtherRegistry, registry: Registry) -> None:
    extra = {"metadata": {"properties": {"owner": "team shop"}}}
    registry.register("money", Wanted(definition=MONEY, extra=extra), normalize=False)
    registry.register("orders-value", Wanted(definition=ORDER), normalize=False)
    registry.set_compatibility("money", "FULL")
    assert other.all_versions(deleted=False) == registry.all_versions(deleted=False)
    levels = [other.compatibility(each, default_to_global=True) for each in ("money", "orders-value")]
    assert levels == ["FULL", "BACKWARD"]


def test_errors_are_those_of_the_embedded_registry(other: OtherRegistry) -> None:
    other.register("numbers", Wanted(definition=NUMBER), normalize=False)
    found = []
    for attempt in (
        lambda: other.of_id(99),
        lambda: other.register("numbers", Wanted(definition=TEXT), normalize=False),
        lambda: other.register("numbers", Wanted(definition=Definition(text="{")), normalize=False),
        lambda: other.version("numbers", "7"),
        lambda: OtherRegistry(f"http://127.0.0.1:{free_port()}").of_id(1),
    ):
        with pytest.raises(RegistryError) as raised:
            attempt()
        found.append((raised.value.status, raised.value.code))
    assert found == [(404, 40403), (409, 409), (422, 42201), (404, 40402), (503, 50301)]


def test_the_catalogue_shows_its_schemas(
    other: OtherRegistry, registry: Registry, cluster: Cluster, topic: str
) -> None:
    name = topic.removeprefix("_")
    cluster.create_topic(name, partitions=1)
    fields = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    wanted = Wanted(definition=Definition(text=json.dumps(fields)))
    registry.register(f"{name}-value", wanted, normalize=False)
    (schema,) = CatalogSource(cluster, other, SystemClock()).event_type(name).schemas
    assert (schema.version, schema.compatibility) == (1, "BACKWARD")
    assert [each.path for each in schema.fields or ()] == ["id"]
