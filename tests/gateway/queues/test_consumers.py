"""How many consumers there are, and which one is used."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from headrace.gateway.errors import Overloaded
from headrace.gateway.queues.consumers import Consumers
from headrace.gateway.queues.group import Group
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster
from headrace.queue.outbox import Outbox


@pytest.fixture
def config(cluster: Cluster) -> Mapping[str, Any]:
    return Group(
        cluster, Outbox(cluster.client_config(), 30), GatewaySettings(), "consumers-test"
    ).consumer_config()


def test_unused_consumer_of_the_same_queue_and_size_is_used_again(
    config: Mapping[str, Any], new_topic: Callable[..., str]
) -> None:
    async def scenario(topic: str) -> None:
        consumers = Consumers(3)
        first = await consumers.borrow("a", config, topic, 1)
        assert await consumers.borrow("a", config, topic, 1) is not first
        consumers.put_back(first, "a")
        assert await consumers.borrow("a", config, topic, 2) is not first
        assert await consumers.borrow("a", config, topic, 1) is first
        await consumers.close()

    asyncio.run(scenario(new_topic(1)))


def test_unused_consumer_makes_place_and_used_ones_do_not(
    config: Mapping[str, Any], new_topic: Callable[..., str]
) -> None:
    async def scenario(topic: str) -> None:
        consumers = Consumers(2)
        first = await consumers.borrow("a", config, topic, 1)
        await consumers.borrow("a", config, topic, 1)
        with pytest.raises(Overloaded):
            await consumers.borrow("b", config, topic, 1)
        consumers.put_back(first, "a")
        assert consumers.is_unused(first)
        assert await consumers.borrow("b", config, topic, 1) is not first
        with pytest.raises(Overloaded):
            await consumers.borrow("a", config, topic, 1)
        await consumers.close()

    asyncio.run(scenario(new_topic(1)))


def test_consumers_that_are_unused_for_long_are_closed(
    config: Mapping[str, Any], new_topic: Callable[..., str]
) -> None:
    async def scenario(topic: str) -> None:
        consumers = Consumers(1)
        first = await consumers.borrow("a", config, topic, 1)
        consumers.discard_unused(since_s=math.inf)
        consumers.put_back(first, "a")
        consumers.discard_unused(since_s=-math.inf)
        assert await consumers.borrow("a", config, topic, 1) is first
        consumers.put_back(first, "a")
        consumers.discard_unused(since_s=math.inf)
        assert await consumers.borrow("a", config, topic, 1) is not first
        await consumers.close()

    asyncio.run(scenario(new_topic(1)))
