from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.gateway import feeds as module
from headrace.gateway.errors import Overloaded
from headrace.gateway.feeds import Feeds
from headrace.gateway.settings import GatewaySettings
from headrace.gateway.topics import Topics
from headrace.kafka.cluster import Cluster
from tests.gateway.conftest import NewTopic

pytestmark = pytest.mark.timeout(120)


def with_feeds(cluster: Cluster, work: Callable[[Feeds], Awaitable[None]], **limits: Any) -> None:
    async def run() -> None:
        feeds = Feeds(Topics(cluster, metadata_ms=10_000), GatewaySettings(**limits))
        await feeds.start()
        try:
            await work(feeds)
        finally:
            await feeds.close()

    asyncio.run(run())


def test_streams_of_a_topic_share_one_feed_also_a_moment_later(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(feeds: Feeds) -> None:
        async with feeds.feed(topic) as one, feeds.feed(topic) as other:
            assert one is other
        async with feeds.feed(topic) as again:
            assert again is one
        monkeypatch.setattr(module, "UNUSED_S_MAX", 0)
        async with feeds.feed(topic):
            pass
        await asyncio.sleep(0.05)
        async with feeds.feed(topic) as later:
            assert later is not one

    with_feeds(cluster, work)


def test_topics_that_are_followed_are_bounded(cluster: Cluster, new_topic: NewTopic) -> None:
    one, other = new_topic(1), new_topic(1)

    async def work(feeds: Feeds) -> None:
        async with feeds.feed(one):
            with pytest.raises(Overloaded):
                async with feeds.feed(other):
                    pass

    with_feeds(cluster, work, followed_topics_max=1)
