"""DescribeConfigs over the wire: the broker's settings under the names that Kafka's tools know."""

from __future__ import annotations

from headrace.broker.configs.config_synonyms import BROKER_SYNONYMS
from headrace.broker.configs.group_configs import GROUP_CONFIGS
from headrace.broker.configs.topic_configs import TOPIC_CONFIGS
from headrace.broker.embedded import Broker
from headrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.testing.wire import Wire
from tests.broker.config_requests import TOPIC, described

BROKER_RESOURCE = 4
# Kafka's way to stop the copying of a topic's segments to the archive and keep what is there.
NOT_SERVED = {"remote.log.copy.disable"}


def test_broker_returns_its_advertised_address(wire: Wire, headrace_broker: Broker) -> None:
    broker = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE,
        resource_name=str(headrace_broker.settings.node_id),
        configuration_keys=("advertised.listeners",),
    )
    (result,) = wire.request(DescribeConfigsRequest(resources=(broker,))).results
    (config,) = result.configs
    assert (config.value, config.read_only) == (f"PLAINTEXT://{headrace_broker.bootstrap}", True)


def test_configs_of_a_topic_have_kafkas_names_values_types_and_synonyms(
    any_wire: Wire, any_topic: str
) -> None:
    """Run with `--bootstrap-of=kafka`, it compares what is here with what Kafka has."""
    found = described(any_wire, TOPIC, any_topic)
    assert found.keys() - NOT_SERVED == TOPIC_CONFIGS.keys()
    for name, config in TOPIC_CONFIGS.items():
        assert (found[name].value, found[name].config_type) == (config.default, config.type), name
        expected = {BROKER_SYNONYMS[name]} if name in BROKER_SYNONYMS else set()
        assert {one.name for one in found[name].synonyms} == expected, name


def test_every_synonym_is_of_a_config() -> None:
    assert BROKER_SYNONYMS.keys() <= TOPIC_CONFIGS.keys() | GROUP_CONFIGS.keys()
