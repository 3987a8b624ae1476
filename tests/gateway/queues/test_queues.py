from __future__ import annotations

import asyncio

import pytest

from headrace.gateway.errors import Overloaded
from headrace.gateway.queues.queues import Queues
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster


def test_queue_is_opened_once_for_a_topic_and_a_group_and_queues_are_bounded(cluster: Cluster) -> None:
    async def scenario() -> None:
        queues = Queues(cluster, GatewaySettings(queues_max=2))
        await queues.start()
        assert queues.get("t", "g") is None
        first = queues.open("t", "g")
        assert queues.get("t", "g") is first is queues.open("t", "g")
        queues.open("t", "other")
        with pytest.raises(Overloaded):
            queues.open("other", "g")
        await queues.close()

    asyncio.run(scenario())
