"""The numbers of resource types are those of Kafka."""

from __future__ import annotations

from headrace.broker.configs.resource_types import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC


def test_numbers_are_those_of_config_resource_type() -> None:
    """They are not those of `ResourceType`, in which a group is 3."""
    assert (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP) == (2, 4, 8, 16, 32)
