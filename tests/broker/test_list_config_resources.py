"""ListConfigResources over the wire."""

from __future__ import annotations

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_config_resources import ListConfigResourcesRequest
from headrace.testing.wire import Wire
from tests.broker.observing import eventually
from tests.broker.share_requests import GROUP_RESOURCE, set_group_configs

TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16


def listed(wire: Wire, *types: int) -> set[tuple[int, str]]:
    answer = wire.ask(ListConfigResourcesRequest(resource_types=types))
    assert answer.error_code == 0
    return {(one.resource_type, one.resource_name) for one in answer.config_resources}


def test_what_has_configs_is_listed_by_type_or_all_together(
    any_wire: Wire, any_topic: str, any_group: str
) -> None:
    set_group_configs(any_wire, any_group, share_delivery_count_limit=4)
    group, topic = (GROUP_RESOURCE, any_group), (TOPIC, any_topic)
    eventually(lambda: group in listed(any_wire, GROUP_RESOURCE), "Kafka hears of the group's configs")
    assert {kind for kind, _ in listed(any_wire, GROUP_RESOURCE)} == {GROUP_RESOURCE}
    assert topic in listed(any_wire, TOPIC)
    assert len(listed(any_wire, BROKER)) == 1
    assert {group, topic} <= listed(any_wire)
    assert listed(any_wire, CLIENT_METRICS) == set()


def test_first_version_lists_subscriptions_to_metrics_only(any_wire: Wire, any_topic: str) -> None:
    assert any_wire.ask(ListConfigResourcesRequest(), version=0).config_resources == ()


def test_type_that_nobody_knows_is_refused(any_wire: Wire) -> None:
    answer = any_wire.ask(ListConfigResourcesRequest(resource_types=(99,)))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
