"""The configs of groups over the wire: DescribeConfigs, IncrementalAlterConfigs and AlterConfigs on resource 32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.broker.configs.group_configs import GROUP_CONFIGS
from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import alter_configs
from headrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.requests import batch, create_topic, new_name, produce
from tests.broker.share_requests import GROUP_RESOURCE, ShareMember, set_group_configs

GROUP_SOURCE, BROKER_SOURCE, DEFAULT_SOURCE = 8, 4, 5


def configs_of(wire: Wire, group: str) -> dict[str, Any]:
    resource = DescribeConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configuration_keys=None
    )
    (found,) = wire.request(DescribeConfigsRequest(resources=(resource,), include_documentation=True)).results
    assert found.error_code == 0
    return {config.name: config for config in found.configs}


def test_group_has_defaults_before_it_exists(wire: Wire) -> None:
    found = configs_of(wire, new_name("g"))
    assert found["share.record.lock.duration.ms"].value == "30000"
    assert found["share.delivery.count.limit"].value == "5"
    assert found["share.partition.max.record.locks"].value == "2000"
    assert found["share.auto.offset.reset"].value == "latest"
    assert {config.config_source for config in found.values()} == {DEFAULT_SOURCE}
    assert all(config.documentation for config in found.values())


def test_set_config_is_described_and_can_be_deleted(wire: Wire) -> None:
    group = new_name("g")
    assert set_group_configs(wire, group, share_delivery_count_limit=7) is ErrorCode.NONE
    found = configs_of(wire, group)["share.delivery.count.limit"]
    assert (found.value, found.config_source) == ("7", GROUP_SOURCE)
    assert set_group_configs(wire, group, share_delivery_count_limit=None) is ErrorCode.NONE
    assert configs_of(wire, group)["share.delivery.count.limit"].value == "5"


def test_older_call_replaces_all(wire: Wire) -> None:
    group = new_name("g")
    set_group_configs(wire, group, share_delivery_count_limit=7)
    change = alter_configs.AlterableConfig(name="share.isolation.level", value="read_committed")
    resource = alter_configs.AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configs=(change,)
    )
    request = alter_configs.AlterConfigsRequest(resources=(resource,), validate_only=False)
    assert wire.request(request).responses[0].error_code == 0
    found = configs_of(wire, group)
    assert found["share.isolation.level"].value == "read_committed"
    assert found["share.delivery.count.limit"].value == "5"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.record.lock.duration.ms", "soon"),
        ("share.record.lock.duration.ms", "1"),
        ("share.delivery.count.limit", "0"),
        ("share.auto.offset.reset", "by_duration:yesterday"),
        ("share.auto.offset.reset", "middle"),
        ("share.isolation.level", "serializable"),
        ("share.heartbeat.interval.ms", "60000"),
        ("errors.deadletterqueue.topic.name", "not/a/topic"),
        ("headrace.share.retry.backoff.multiplier", "0.5"),
        ("no.such.config", "1"),
    ],
)
def test_invalid_value_is_rejected_and_changes_nothing(wire: Wire, name: str, value: str) -> None:
    group = new_name("g")
    assert set_group_configs(wire, group, **{name.replace(".", "_"): value}) is ErrorCode.INVALID_CONFIG
    assert {config.config_source for config in configs_of(wire, group).values()} == {DEFAULT_SOURCE}


def test_every_default_is_valid() -> None:
    for config in GROUP_CONFIGS.values():
        config.parse(config.default)


def test_configs_survive_a_restart_whatever_the_group_is_called(tmp_path: Path, connect: Connect) -> None:
    group = "../ä group/with: «everything»"
    with Broker(tmp_path) as broker:
        set_group_configs(connect(broker), group, share_delivery_count_limit=9)
    with Broker(tmp_path) as broker:
        assert configs_of(connect(broker), group)["share.delivery.count.limit"].value == "9"


def test_broker_setting_is_the_default_lock_duration_of_groups(
    start_broker: StartBroker, connect: Connect
) -> None:
    wire = connect(start_broker(share_record_lock_duration_ms=1000))
    found = configs_of(wire, "g")["share.record.lock.duration.ms"]
    assert (found.value, found.config_source) == ("1000", BROKER_SOURCE)
    topic_id = create_topic(wire, "t")
    set_group_configs(wire, "g", share_auto_offset_reset="earliest")
    produce(wire, "t", batch(b"x"))
    response = ShareMember(wire, "g", topic_id).fetch_all()
    assert response.acquisition_lock_timeout_ms == 1000
    set_group_configs(wire, "g", share_record_lock_duration_ms=2000)
    found = configs_of(wire, "g")["share.record.lock.duration.ms"]
    assert (found.value, found.config_source) == ("2000", GROUP_SOURCE)
