"""The asyncio form: the same promises as `Queue`, and a loop that never waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headrace.queue import AlreadyAcknowledged, AsyncMessage, AsyncQueue, QueueUnusable
from headrace.testing.ports import free_ports
from tests.queue.conftest import TIMEOUT_S, OpenQueue, Send, take, values

Open = Callable[..., AsyncQueue]


@pytest.fixture
def open_async(bootstrap: str) -> Open:
    def open_async(*topics: str, **options: object) -> AsyncQueue:
        return AsyncQueue(*topics, bootstrap=bootstrap, **options)  # type: ignore[arg-type]

    return open_async


async def take_async(queue: AsyncQueue) -> AsyncMessage:
    message = await queue.get(timeout=TIMEOUT_S)
    assert message is not None, "no message came"
    return message


def test_messages_are_put_iterated_and_accepted(
    open_async: Open, open_queue: OpenQueue, topic: str, group: str
) -> None:
    async def main() -> list[bytes]:
        seen: list[bytes] = []
        async with open_async(topic, group=group) as queue:
            ids = await asyncio.gather(*(queue.put(f"message {number}", key="k") for number in range(20)))
            assert [each.offset for each in ids] == list(range(20))
            async for message in queue:
                async with message.process():
                    seen.append(message.value)
                if len(seen) == 20:
                    queue.stop()
            await queue.flush()
        return seen

    assert asyncio.run(main()) == [b"message %d" % number for number in range(20)]
    with open_queue(topic, group=group) as queue:
        assert queue.get(timeout=0.5) is None


def test_released_message_is_redelivered_and_a_rejected_one_is_not(
    open_async: Open, topic: str, group: str, send: Send
) -> None:
    send(topic, "again", "never")

    async def main() -> None:
        async with open_async(topic, group=group) as queue:
            again, never = await take_async(queue), await take_async(queue)
            await again.release()
            await never.reject("bad")
            with pytest.raises(AlreadyAcknowledged):
                await never.accept()
            message = await take_async(queue)
            assert (message.value, message.delivery_count) == (b"again", 2)
            with pytest.raises(ValueError, match="bad"):
                async with message.process(reject_on=(ValueError,)):
                    raise ValueError("bad")
            assert message.is_acknowledged
            await queue.flush()
            assert await queue.get(timeout=0.2) is None

    asyncio.run(main())


def test_message_for_a_get_that_was_cancelled_goes_to_the_next_one(
    open_async: Open, topic: str, group: str, send: Send
) -> None:
    async def main() -> None:
        async with open_async(topic, group=group) as queue:
            assert await queue.get(timeout=1) is None
            getting = [asyncio.create_task(queue.get()) for _ in range(3)]
            await asyncio.sleep(0.05)
            for each in getting:
                each.cancel()
            await asyncio.to_thread(send, topic, "one", "two")
            seen = set()
            for _ in range(2):
                message = await take_async(queue)
                await message.accept()
                seen.add(message.value)
            assert seen == {b"one", b"two"}

    asyncio.run(main())


def test_run_acknowledges_by_the_outcome_of_concurrent_handlers(
    open_async: Open, topic: str, group: str, send: Send
) -> None:
    send(topic, "a", "b", "busy", "bad")
    seen: list[tuple[bytes, int]] = []

    async def main() -> None:
        together = asyncio.Barrier(4)

        async def handle(message: AsyncMessage) -> None:
            seen.append((message.value, message.delivery_count))
            if message.delivery_count == 1:
                await asyncio.wait_for(together.wait(), TIMEOUT_S)
                if message.value == b"busy":
                    raise ConnectionError("server is busy")
                if message.value == b"bad":
                    raise ValueError("no such mailbox")

        await open_async(topic, group=group).run(handle, concurrency=4, reject_on=ValueError, count=5)

    asyncio.run(main())
    assert sorted(seen) == [(b"a", 1), (b"b", 1), (b"bad", 1), (b"busy", 1), (b"busy", 2)]


def test_loop_goes_on_while_a_queue_waits_for_messages(open_async: Open, topic: str, group: str) -> None:
    async def main() -> None:
        async with open_async(topic, group=group) as queue:
            getting = asyncio.create_task(queue.get())
            turns = 0
            while turns < 1000:  # a get that held the loop would let it turn a few times a second
                await asyncio.sleep(0)
                turns += 1
            assert not getting.done()
            queue.stop()
            assert await getting is None

    asyncio.run(main())


def test_cancelled_run_releases_its_messages(
    open_async: Open, open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "one")

    async def main() -> None:
        started = asyncio.Event()

        async def handle(_message: AsyncMessage) -> None:
            started.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(open_async(topic, group=group).run(handle))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    with open_queue(topic, group=group) as queue:
        (message,) = take(queue, 1)
        assert (message.value, message.delivery_count) == (b"one", 2)


def test_failure_of_a_worker_is_raised_when_the_others_are_done(
    open_async: Open, topic: str, group: str, send: Send
) -> None:
    send(topic, "one", "two")
    finished: list[bytes] = []

    async def main() -> None:
        together = asyncio.Barrier(2)

        async def handle(message: AsyncMessage) -> None:
            await together.wait()
            if message.value == b"one":
                raise asyncio.CancelledError
            await asyncio.sleep(0.1)
            finished.append(message.value)

        with pytest.raises(asyncio.CancelledError):
            await open_async(topic, group=group).run(handle, concurrency=2)

    asyncio.run(main())
    assert finished == [b"two"]


def test_queue_that_cannot_be_opened_says_why(open_async: Open, topic: str, group: str) -> None:
    async def main() -> None:
        (port,) = free_ports(1)
        with pytest.raises(QueueUnusable, match="no broker answers"):
            await AsyncQueue(topic, group=group, bootstrap=f"127.0.0.1:{port}").open()
        with pytest.raises(QueueUnusable, match="there is no topic elsewhere"):
            async with open_async("elsewhere", group=group):
                pass
        with pytest.raises(QueueUnusable, match="not open"):
            await open_async(topic, group=group).get()

    asyncio.run(main())


def test_message_of_a_closed_queue_cannot_be_acknowledged(
    open_async: Open, topic: str, group: str, send: Send
) -> None:
    send(topic, "one")

    async def main() -> None:
        async with open_async(topic, group=group) as queue:
            message = await take_async(queue)
        with pytest.raises(AlreadyAcknowledged, match="when its queue was closed"):
            await message.accept()
        with pytest.raises(QueueUnusable, match="was closed"):
            await queue.open()

    asyncio.run(main())


def test_open_queue_is_read_by_both_forms(
    open_async: Open, open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    """They are members of one group."""
    send(topic, "one", "two")

    async def main() -> bytes:
        async with open_async(topic, group=group, prefetch=1) as queue:
            message = await take_async(queue)
            await message.accept()
        return message.value

    first = asyncio.run(main()).decode()
    with open_queue(topic, group=group) as queue:
        assert {first, *values(take(queue, 1))} == {"one", "two"}
