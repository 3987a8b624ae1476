"""A consumer in an event loop: one call after the other, whoever waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import AcknowledgeType, Message

from headrace.gateway.queues import consumer as module
from headrace.gateway.queues.consumer import Consumer
from headrace.gateway.queues.group import Group
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster
from headrace.queue.member import Member
from headrace.queue.outbox import Outbox
from tests.gateway.conftest import Write


@asynccontextmanager
async def opened(cluster: Cluster, topic: str, count: int = 1) -> AsyncIterator[Callable[[], Consumer]]:
    outbox = Outbox(cluster.client_config(), 30)
    group = Group(cluster, outbox, GatewaySettings(), f"{topic}-workers")
    threads = ThreadPoolExecutor(4)
    made: list[Consumer] = []

    def create() -> Consumer:
        made.append(Consumer(group.consumer_config(), topic, count, threads))
        return made[-1]

    await asyncio.to_thread(group.open)
    try:
        yield create
    finally:
        for each in made:
            await each.close()
        await asyncio.to_thread(outbox.close)


async def polled(consumer: Consumer) -> list[int | None]:
    while True:
        if found := await consumer.poll(1):
            return [each.offset() for each in found]


def test_poll_that_is_cancelled_keeps_the_next_call_waiting_and_its_messages_are_released(
    cluster: Cluster, new_topic: Callable[..., str], write: Write
) -> None:
    async def scenario(topic: str) -> list[int | None]:
        async with opened(cluster, topic) as create:
            first, second = create(), create()
            await first.open()
            await second.open()
            waiting = asyncio.create_task(first.poll(0.5))
            await asyncio.sleep(0)  # it begins
            waiting.cancel()
            write(topic, b"1", partition=0)
            await first.close()
            return await polled(second)

    assert asyncio.run(scenario(new_topic(1))) == [0]


def test_close_that_hangs_in_the_client_is_given_up(
    cluster: Cluster, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_S_MAX", 0.1)
    hangs = threading.Event()

    async def scenario(topic: str) -> None:
        async with opened(cluster, topic) as create:
            consumer = create()
            await consumer.open()
            with monkeypatch.context() as patch:
                patch.setattr(Member, "close", lambda *_: hangs.wait())
                await consumer.close()

    asyncio.run(scenario(new_topic(1)))
    hangs.set()


def test_error_of_the_broker_is_returned_for_each_message(
    cluster: Cluster, new_topic: Callable[..., str], write: Write
) -> None:
    async def scenario(topic: str) -> None:
        async with opened(cluster, topic, 10) as create:
            consumer = create()
            await consumer.open()
            write(topic, b"1", b"2", partition=0)
            found: list[Message] = []
            while not found:
                found = await consumer.poll(1)
            accepted = [(each, AcknowledgeType.ACCEPT) for each in found]
            assert await consumer.acknowledge(lambda: accepted) == [None] * len(found)
            assert await consumer.acknowledge(list) == []

    asyncio.run(scenario(new_topic(1)))
