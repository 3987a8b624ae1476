"""DescribeConfigs over the wire: the broker's settings under the names that Kafka's tools know."""

from __future__ import annotations

from headrace.broker.embedded import Broker
from headrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.testing.wire import Wire

BROKER_RESOURCE = 4


def test_broker_tells_the_address_that_it_advertises(wire: Wire, headrace_broker: Broker) -> None:
    broker = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE,
        resource_name=str(headrace_broker.settings.node_id),
        configuration_keys=("advertised.listeners",),
    )
    (result,) = wire.ask(DescribeConfigsRequest(resources=(broker,))).results
    (config,) = result.configs
    assert (config.value, config.read_only) == (f"PLAINTEXT://{headrace_broker.bootstrap}", True)
