"""What clients request of a registry."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace import Broker
from headrace.gateway.registry.changes import Wanted
from headrace.gateway.registry.errors import RegistryError
from headrace.gateway.registry.records import Version
from headrace.gateway.registry.registry import Registry, parse_version
from headrace.kafka.cluster import Cluster
from headrace.schemas.definition import Definition, Reference
from headrace.schemas.levels import Compatibility
from tests.gateway.registry.conftest import TIMEOUT_S, OpenRegistry

pytestmark = pytest.mark.timeout(120)


def register(registry: Registry, subject: str, text: str, *references: Reference) -> Version:
    wanted = Wanted(definition=Definition(text=text, references=references))
    return registry.register(subject, wanted, normalize=False)


def fixed(size: int) -> str:
    return f'{{"type": "fixed", "name": "F", "size": {size}}}'


def test_a_restart_has_everything(open_registry: OpenRegistry) -> None:
    first = open_registry()
    register(first, "a", '"int"')
    register(first, "b", '"int"')
    first.set_compatibility("a", "none")
    register(first, "a", '"string"')
    first.delete_version("a", "1", permanent=False)
    first.close()
    second = open_registry()
    assert [each.version for each in second.versions("a", deleted=False)] == [2]
    assert [each.version for each in second.versions("a", deleted=True)] == [1, 2]
    assert second.compatibility("a") is Compatibility.NONE
    assert [each.subject for each in second.of_id(1, deleted=False)] == ["b"]
    assert register(second, "c", '"bytes"').id == 3


def test_an_id_is_not_assigned_again_after_its_schema_was_deleted_for_good(
    open_registry: OpenRegistry,
) -> None:
    first = open_registry()
    register(first, "a", '"int"')
    first.delete_subject("a", permanent=False)
    first.delete_subject("a", permanent=True)
    first.close()
    assert register(open_registry(), "b", '"string"').id == 2


def test_two_gateways_at_once_assign_no_id_twice_and_lose_nothing(open_registry: OpenRegistry) -> None:
    gateways = [open_registry(), open_registry()]
    ids: dict[str, int] = {}
    failures: list[Exception] = []

    def register_all(gateway: Registry, first: int) -> None:
        try:
            for size in range(first, first + 12):
                ids[f"s{size}"] = register(gateway, f"s{size}", fixed(size)).id
        except Exception as error:
            failures.append(error)

    # Half of the schemas are registered by both.
    threads = [
        threading.Thread(target=register_all, args=each) for each in zip(gateways, (0, 6), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(ids.values()) == list(range(1, 19))
    for gateway in (*gateways, open_registry()):
        assert {name: gateway.version(name, "latest").id for name in ids} == ids
        assert all(len(gateway.versions(name, deleted=True)) == 1 for name in ids)


def test_a_gateway_finds_at_once_what_another_one_has_registered(open_registry: OpenRegistry) -> None:
    one, two = open_registry(), open_registry()
    for size in range(10):
        registered = register(one, f"s{size}", fixed(size))
        assert two.of_id(registered.id) == [registered]


def register_when_possible(registry: Registry, subject: str, text: str) -> Version:
    """The client may need a moment to connect again."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return register(registry, subject, text)
        except RegistryError as error:
            if error.code != 50001 or time.monotonic() > deadline_s:
                raise


@pytest.mark.slow
def test_schemas_are_read_while_the_broker_is_down_and_registered_when_it_is_back(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        registry = Registry.open(broker.bootstrap, timeout_s=2)
        port = int(broker.bootstrap.rpartition(":")[2])
        first = register(registry, "s", '"int"')
    try:
        assert registry.of_id(1) == [first]
        with pytest.raises(RegistryError) as raised:
            register(registry, "t", '"string"')
        assert raised.value.code == 50001
        with Broker(tmp_path, port=port):
            assert register_when_possible(registry, "t", '"string"').id == 2
            assert register(registry, "s", '"int"') == first
    finally:
        registry.close()


def test_the_topic_of_another_registry_is_taken_over(
    cluster: Cluster, topic: str, open_registry: OpenRegistry
) -> None:
    """The records are as Confluent's registry writes them; one is not of a registry, and one schema is not valid."""
    cluster.create_topic(topic, partitions=1, config={"cleanup.policy": "compact"})
    cluster.require_topics([topic], appear_s_max=TIMEOUT_S)
    with_dash = '{"type":"record","name":"O-1","fields":[]}'
    records = [
        (b'{"keytype":"NOOP","magic":0}', None),
        (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"NONE"}'),
        (
            b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}',
            json.dumps(
                {"subject": "orders-value", "version": 1, "id": 7, "schema": with_dash, "deleted": False}
            ).encode(),
        ),
        (b"not of a registry", b"{}"),
        (
            b'{"keytype":"SCHEMA","subject":"broken","version":1,"magic":1}',
            json.dumps({"subject": "broken", "version": 1, "id": 9, "schema": '{"foo": "bar"}'}).encode(),
        ),
    ]
    producer = Producer(cluster.client_config())
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(TIMEOUT_S) == 0
    registry = open_registry()
    assert registry.subjects(deleted=False) == ["broken", "orders-value"]
    assert registry.version("broken", "latest").definition.text == '{"foo": "bar"}'
    again = register_lenient(registry, "orders-value", '{"type":"record","fields":[],"name":"O-1"}')
    assert (again.id, again.version) == (7, 1)
    assert register(registry, "new", '"int"').id == 10


def register_lenient(registry: Registry, subject: str, text: str) -> Version:
    return registry.look_up(subject, Wanted(definition=Definition(text=text)), deleted=False)


def test_an_incompatible_schema_is_rejected_with_the_version_and_the_reason(registry: Registry) -> None:
    register(registry, "s", '"int"')
    with pytest.raises(RegistryError) as raised:
        register(registry, "s", '"string"')
    assert raised.value.code == 409
    assert "TYPE_MISMATCH at /" in raised.value.message
    assert "oldSchemaVersion: 1" in raised.value.message


def test_a_version_that_is_not_valid_is_no_obstacle_at_the_level_none(registry: Registry) -> None:
    registry.set_compatibility("s", "NONE")
    assert register(registry, "s", '"int"').version == 1
    assert register(registry, "s", '"string"').version == 2


def test_the_same_text_with_another_version_of_a_reference_is_another_schema(registry: Registry) -> None:
    registry.set_compatibility(None, "NONE")
    for size in (4, 8):
        register(registry, "f", fixed(size))
    found = [register(registry, "s", '["null", "F"]', Reference("F", "f", number)) for number in (1, 2, 1)]
    assert [(each.version, each.id) for each in found] == [(1, 3), (2, 4), (1, 3)]


def test_a_reference_to_the_latest_version_is_stored_with_its_number(registry: Registry) -> None:
    registry.set_compatibility("f", "NONE")
    for size in (4, 8):
        register(registry, "f", fixed(size))
    found = register(registry, "s", '["null", "F"]', Reference("F", "f", -1))
    assert found.definition.references == (Reference("F", "f", 2),)
    with pytest.raises(RegistryError, match='subject "other" and version -1'):
        register(registry, "s", '["null", "F"]', Reference("F", "other", -1))


def test_a_normalized_schema_is_stored_in_one_form(registry: Registry) -> None:
    wanted = Wanted(definition=Definition(text='{"type": "int", "z": 1, "a": 2}'))
    text = registry.register("s", wanted, normalize=True).definition.text
    assert text == '{"type":"int","a":2,"z":1}'


@pytest.mark.parametrize("text", ["0", "-2", "2147483648", "9" * 5_000, "x", "", "1.0", "²"])
def test_a_version_is_a_positive_number_or_latest(text: str) -> None:
    with pytest.raises(RegistryError) as raised:
        parse_version(text)
    assert raised.value.code == 42202


def test_the_latest_version_has_two_names() -> None:
    assert (parse_version("latest"), parse_version("-1"), parse_version("2147483647")) == (
        None,
        None,
        2**31 - 1,
    )
