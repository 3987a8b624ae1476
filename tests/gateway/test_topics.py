from __future__ import annotations

import asyncio
import socket

import pytest

from headrace.gateway.errors import UnknownPartition
from headrace.gateway.topics import Topics, check_partition
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed
from headrace.topic_names import InvalidTopicName
from tests.gateway.conftest import NewTopic

pytestmark = pytest.mark.timeout(120)


def test_topic_that_was_created_since_is_found(cluster: Cluster, new_topic: NewTopic) -> None:
    async def run() -> None:
        topics = Topics(cluster, metadata_ms=3_600_000)
        assert await topics.cluster_id()
        topic = await asyncio.to_thread(new_topic, 2)
        assert await topics.partitions(topic) == 2

    asyncio.run(run())


def test_requests_share_one_look_at_the_cluster(cluster: Cluster, topic: str) -> None:
    async def run() -> None:
        topics = Topics(cluster, metadata_ms=3_600_000)
        assert await asyncio.gather(*(topics.partitions(topic) for _ in range(20))) == [3] * 20
        assert await topics.metadata() is await topics.metadata()

    asyncio.run(run())


def test_what_is_known_is_used_while_the_broker_does_not_respond(cluster: Cluster, topic: str) -> None:
    async def run(address: str) -> None:
        topics = Topics(cluster, metadata_ms=0)
        assert await topics.partitions(topic) == 3
        topics.cluster = Cluster(address, timeout_s=0.2)
        assert await topics.partitions(topic) == 3
        with pytest.raises(RequestFailed, match="no broker answers"):
            await Topics(topics.cluster, metadata_ms=0).partitions(topic)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(run(f"127.0.0.1:{silent.getsockname()[1]}"))


def test_unknown_topic_and_partition_are_errors(cluster: Cluster) -> None:
    topics = Topics(cluster, metadata_ms=3_600_000)
    with pytest.raises(RequestFailed, match="there is no topic no-such-topic"):
        asyncio.run(topics.partitions("no-such-topic"))
    with pytest.raises(InvalidTopicName):
        asyncio.run(Topics(cluster, metadata_ms=3_600_000).partitions_to_write("a b"))
    with pytest.raises(UnknownPartition, match="it has 0 to 2"):
        check_partition("t", 3, 3)


def test_topic_is_created_by_a_write_as_the_broker_does_it(cluster: Cluster, topic: str) -> None:
    topics = Topics(cluster, metadata_ms=3_600_000)
    assert asyncio.run(topics.partitions_to_write(f"{topic}-new")) >= 1
