"""ListConfigResources over the wire."""

from __future__ import annotations

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_config_resources import ListConfigResourcesRequest
from headrace.testing.wire import Wire
from tests.broker.config_requests import BROKER, CLIENT_METRICS, TOPIC, alter
from tests.broker.observing import eventually
from tests.broker.requests import new_name
from tests.broker.share_requests import GROUP_RESOURCE, set_group_configs


def listed(wire: Wire, *types: int) -> set[tuple[int, str]]:
    response = wire.request(ListConfigResourcesRequest(resource_types=types))
    assert response.error_code == 0
    return {(one.resource_type, one.resource_name) for one in response.config_resources}


def test_resources_with_configs_are_listed_by_type_or_all(
    any_wire: Wire, any_topic: str, any_group: str
) -> None:
    set_group_configs(any_wire, any_group, share_delivery_count_limit=4)
    group, topic = (GROUP_RESOURCE, any_group), (TOPIC, any_topic)
    eventually(lambda: group in listed(any_wire, GROUP_RESOURCE), "Kafka applies the configs of the group")
    assert {kind for kind, _ in listed(any_wire, GROUP_RESOURCE)} == {GROUP_RESOURCE}
    assert topic in listed(any_wire, TOPIC)
    assert len(listed(any_wire, BROKER)) == 1
    assert {group, topic} <= listed(any_wire)


def test_first_version_lists_subscriptions_to_metrics_only(any_wire: Wire, any_topic: str) -> None:
    name = new_name("s")
    assert alter(any_wire, CLIENT_METRICS, name, metrics="org.apache.kafka.consumer.") == 0

    def names() -> set[str]:
        response = any_wire.request(ListConfigResourcesRequest(), version=0)
        return {one.resource_name for one in response.config_resources}

    eventually(lambda: name in names(), "Kafka applies the subscription")
    assert any_topic not in names()
    assert {kind for kind, _ in listed(any_wire, CLIENT_METRICS)} == {CLIENT_METRICS}
    assert alter(any_wire, CLIENT_METRICS, name, metrics=None) == 0
    eventually(lambda: name not in names(), "Kafka applies the deletion")


def test_unknown_type_is_rejected(any_wire: Wire) -> None:
    response = any_wire.request(ListConfigResourcesRequest(resource_types=(99,)))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
