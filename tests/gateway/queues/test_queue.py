"""One queue, and what becomes of its messages when a step fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import AcknowledgeType

from headrace.gateway.queues.leases import Lease
from headrace.gateway.queues.queue import Acknowledgement, Queue
from headrace.gateway.queues.queues import Queues
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster
from headrace.queue import rejections
from headrace.queue.errors import QueueError
from headrace.queue.member import Member
from tests.gateway.conftest import Write

LATER_S = 30.0


def never_gone() -> bool:
    return False


@asynccontextmanager
async def opened(cluster: Cluster, topic: str) -> AsyncIterator[Queue]:
    queues = Queues(cluster, GatewaySettings())
    await queues.start()
    yield queues.open(topic, f"{topic}-workers")
    await queues.close()


async def received(queue: Queue, count: int = 1) -> list[Lease]:
    return await queue.receive(count, LATER_S, never_gone)


def test_rejection_whose_reason_is_not_stored_fails_and_the_message_is_still_held(
    cluster: Cluster, new_topic: Callable[..., str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(1)
    write(topic, b"1", partition=0)

    def prepare(*_: object) -> None:
        raise QueueError("the reason can't be written")

    async def scenario() -> Sequence[object]:
        async with opened(cluster, topic) as queue:
            (lease,) = await received(queue)
            with monkeypatch.context() as patch:
                patch.setattr(rejections.Rejections, "prepare", prepare)
                failed = await queue.acknowledge(
                    [Acknowledgement(lease.number, AcknowledgeType.REJECT, "why")]
                )
            return [
                *failed,
                *await queue.acknowledge([Acknowledgement(lease.number, AcknowledgeType.ACCEPT)]),
            ]

    failed, accepted = asyncio.run(scenario())
    assert "can't be written" in str(failed)
    assert accepted is None


def test_acknowledgement_that_fails_in_the_client_is_an_error_and_the_message_is_delivered_again(
    cluster: Cluster, new_topic: Callable[..., str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(1)
    write(topic, b"1", partition=0)

    def fail(*_: object) -> None:
        raise RuntimeError("the client failed")

    async def scenario() -> tuple[Sequence[object], list[Lease]]:
        async with opened(cluster, topic) as queue:
            (lease,) = await received(queue)
            with monkeypatch.context() as patch:
                patch.setattr(Member, "acknowledge_and_wait", fail)
                failed = await queue.acknowledge([Acknowledgement(lease.number, AcknowledgeType.ACCEPT)])
            return failed, await received(queue)

    (error,), again = asyncio.run(scenario())
    assert "the client failed" in str(error)
    assert [each.message.offset for each in again] == [0]


def test_client_that_is_gone_when_its_messages_come_locks_none(
    cluster: Cluster, new_topic: Callable[..., str], write: Write
) -> None:
    topic = new_topic(1)
    write(topic, b"1", partition=0)
    looks = iter([False, True])

    async def scenario() -> tuple[list[Lease], list[Lease]]:
        async with opened(cluster, topic) as queue:
            return await queue.receive(1, LATER_S, lambda: next(looks, True)), await received(queue)

    for_the_gone, for_the_next = asyncio.run(scenario())
    assert (for_the_gone, [each.message.offset for each in for_the_next]) == ([], [0])


def test_receive_that_is_cancelled_locks_none(
    cluster: Cluster, new_topic: Callable[..., str], write: Write
) -> None:
    topic = new_topic(1)

    async def scenario() -> list[Lease]:
        async with opened(cluster, topic) as queue:
            waiting = asyncio.create_task(received(queue))
            await asyncio.wait({waiting}, timeout=0.5)  # at any moment
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            write(topic, b"1", partition=0)
            return await received(queue)

    assert [each.message.delivery_count for each in asyncio.run(scenario())] == [1]


def test_unknown_number_is_a_lock_that_has_ended(cluster: Cluster, new_topic: Callable[..., str]) -> None:
    async def scenario(topic: str) -> Sequence[object]:
        async with opened(cluster, topic) as queue:
            return await queue.acknowledge([Acknowledgement(7, AcknowledgeType.ACCEPT)])

    (error,) = asyncio.run(scenario(new_topic(1)))
    assert "has ended" in str(error)
