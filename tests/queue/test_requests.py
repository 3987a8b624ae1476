"""Requests: each gets its own reply, an error or a time-out, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace import Broker
from headrace.kafka.cluster import Cluster
from headrace.queue import (
    AlreadyAcknowledged,
    AsyncMessage,
    AsyncQueue,
    HandlerFailed,
    Message,
    MessageNotStored,
    NotARequest,
    Queue,
    QueueError,
    QueueUnusable,
    Reply,
    RequestTimedOut,
)
from headrace.queue import requests as requests_module
from headrace.queue.dead_letters import DeadLetters
from headrace.queue.replies import REPLIES_TOPIC
from headrace.queue.reply_to import REPLY_PARTITION_HEADER, REQUEST_ID_HEADER, reply_to
from tests.broker.observing import eventually
from tests.queue.conftest import TIMEOUT_S, OpenQueue, Send, take


@pytest.fixture
def asker(bootstrap: str, topic: str) -> Iterator[Queue]:
    with Queue(topic, bootstrap=bootstrap) as queue:
        yield queue


@contextmanager
def working(queue: Queue, handler: Callable[[Message], object], **options: object) -> Iterator[None]:
    """A worker that runs meanwhile."""
    thread = threading.Thread(target=lambda: queue.run(handler, **options))  # type: ignore[arg-type]
    thread.start()
    try:
        yield
    finally:
        queue.stop()
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


def upper(message: Message) -> str:
    return message.value.decode().upper()


def test_return_value_of_a_handler_is_the_reply(
    asker: Queue, open_queue: OpenQueue, topic: str, group: str
) -> None:
    with working(open_queue(topic, group=group), upper):
        assert asker.request("tea", timeout=TIMEOUT_S).value == b"TEA"
    assert asker.expired_requests == 0


def test_each_of_many_requests_gets_its_own_reply(
    asker: Queue, open_queue: OpenQueue, topic: str, group: str
) -> None:
    with working(open_queue(topic, group=group), upper, concurrency=4):
        replies = [asker.request_nowait(f"item {number}", timeout=TIMEOUT_S) for number in range(200)]
        assert [each.result(TIMEOUT_S).value for each in replies] == [b"ITEM %d" % n for n in range(200)]
    assert (asker.late_replies, asker.duplicate_replies) == (0, 0)


def test_replies_of_several_clients_are_not_confused(
    bootstrap: str, open_queue: OpenQueue, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "reply_partitions", lambda _: 1)
    with (
        Queue(topic, bootstrap=bootstrap) as one,
        Queue(topic, bootstrap=bootstrap) as other,
        working(open_queue(topic, group=group), upper),
    ):
        replies = [
            queue.request_nowait(text, timeout=TIMEOUT_S) for queue, text in ((one, "a"), (other, "b"))
        ]
        assert [each.result(TIMEOUT_S).value for each in replies] == [b"A", b"B"]
        assert one.late_replies == other.late_replies == 0


def test_rejected_request_raises_at_the_client_with_the_reason(
    asker: Queue, open_queue: OpenQueue, topic: str, group: str
) -> None:
    def fail(message: Message) -> None:
        raise ValueError("no such item")

    with (
        working(open_queue(topic, group=group), fail, reject_on=ValueError),
        pytest.raises(HandlerFailed, match="ValueError: no such item"),
    ):
        asker.request("tea", timeout=TIMEOUT_S)


def test_rejected_request_that_is_redriven_is_processed(
    asker: Queue, open_queue: OpenQueue, bootstrap: str, topic: str, group: str
) -> None:
    """Nobody waits for its reply, and its deadline is over."""
    with open_queue(topic, group=group) as worker:
        reply = asker.request_nowait("tea", timeout=2)
        take(worker, 1)[0].reject("no such item")
        with pytest.raises(HandlerFailed, match="no such item"):
            reply.result(TIMEOUT_S)
    letters = DeadLetters(group, bootstrap=bootstrap)
    eventually(lambda: letters.count() == 1, "the dead letter is written")
    time.sleep(2)  # until the deadline
    letters.redrive()
    with open_queue(topic, group=group) as worker:
        (message,) = take(worker, 1)
        assert (message.value, message.is_request) == (b"tea", False)
        message.accept()


def test_request_is_retried_and_its_last_failure_is_the_reply(
    asker: Queue, open_queue: OpenQueue, set_group: Callable[..., None], topic: str, group: str
) -> None:
    set_group(group, share_delivery_count_limit=3)
    deliveries: list[int] = []

    def fail(message: Message) -> None:
        deliveries.append(message.delivery_count)
        raise ConnectionError("busy")

    with working(open_queue(topic, group=group), fail), pytest.raises(HandlerFailed, match="busy"):
        asker.request("tea", timeout=TIMEOUT_S)
    assert deliveries == [1, 2, 3]


def test_result_that_is_no_text_is_an_error_reply(
    asker: Queue, open_queue: OpenQueue, topic: str, group: str
) -> None:
    with (
        working(open_queue(topic, group=group), lambda _: {"price": 3}, reject_on=QueueError),
        pytest.raises(HandlerFailed, match="bytes or a string, not dict"),
    ):
        asker.request("tea", timeout=TIMEOUT_S)


def test_request_without_workers_times_out_and_says_so(asker: Queue, topic: str) -> None:
    with pytest.raises(RequestTimedOut, match=f"no reply from {topic} within 0.3 s") as caught:
        asker.request("tea", timeout=0.3)
    assert f"no worker of any group reads {topic}" in caught.value.hint
    assert asker._requests.in_flight == 0


def test_request_that_timed_out_is_not_processed(
    asker: Queue, open_queue: OpenQueue, topic: str, group: str
) -> None:
    with pytest.raises(RequestTimedOut):
        asker.request("old", timeout=0.2)
    reply = asker.request_nowait("new", timeout=TIMEOUT_S)
    with open_queue(topic, group=group) as worker:
        (message,) = take(worker, 1)
        assert message.value == b"new"
        assert worker.expired_requests == 1
        message.reply("done")
        assert reply.result(TIMEOUT_S).value == b"done"


def test_late_reply_is_dropped_and_counted(
    asker: Queue, open_queue: OpenQueue, topic: str, group: str
) -> None:
    with open_queue(topic, group=group) as worker:
        asker.put("the worker has joined")
        take(worker, 1)[0].accept()
        reply = asker.request_nowait("tea", timeout=1.5)
        (message,) = take(worker, 1)
        with pytest.raises(RequestTimedOut) as caught:
            reply.result(TIMEOUT_S)
        assert "too slow" in asker.explain(caught.value, topic).hint
        message.reply("too late")
        eventually(lambda: asker.late_replies == 1, "the reply is read")
    assert asker.duplicate_replies == 0


def test_second_reply_is_recognised_and_the_first_one_counts(
    asker: Queue, open_queue: OpenQueue, bootstrap: str, topic: str, group: str
) -> None:
    """A worker that was killed between its reply and the acknowledgement: another one replies again."""
    with open_queue(topic, group=group) as worker:
        reply = asker.request_nowait("tea", timeout=TIMEOUT_S)
        (message,) = take(worker, 1)
        to = reply_to(message.headers)
        assert to is not None
        message.reply("first")
        with pytest.raises(AlreadyAcknowledged):
            message.reply("second")
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        producer.produce(REPLIES_TOPIC, "second", to.request_id, partition=to.partition)
        assert producer.flush(TIMEOUT_S) == 0
        assert reply.result(TIMEOUT_S).value == b"first"
        eventually(lambda: asker.duplicate_replies == 1, "the second reply is read")
    assert asker.late_replies == 0


def test_request_of_a_worker_that_dies_is_redelivered(
    asker: Queue, open_queue: OpenQueue, topic: str, group: str
) -> None:
    reply = asker.request_nowait("tea", timeout=TIMEOUT_S)
    with open_queue(topic, group=group) as worker:
        take(worker, 1)  # leaves without a reply
    with open_queue(topic, group=group) as worker:
        (message,) = take(worker, 1)
        assert message.delivery_count == 2
        message.reply("done")
    assert reply.result(TIMEOUT_S) == Reply(value=b"done", headers=[])


def test_message_that_asks_for_nothing_cannot_be_replied(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "tea")
    with open_queue(topic, group=group) as queue:
        (message,) = take(queue, 1)
        assert not message.is_request
        with pytest.raises(NotARequest, match="does not ask for a reply"):
            message.reply("done")
        message.accept()


@pytest.mark.parametrize(
    "headers",
    [
        {REQUEST_ID_HEADER: "x/1"},
        {REQUEST_ID_HEADER: "x/1", REPLY_PARTITION_HEADER: "one"},
        {REQUEST_ID_HEADER: "", REPLY_PARTITION_HEADER: "0"},
    ],
)
def test_incomplete_request_is_an_ordinary_message(
    open_queue: OpenQueue, bootstrap: str, topic: str, group: str, headers: dict[str, str]
) -> None:
    with Queue(topic, bootstrap=bootstrap) as queue:
        queue.put("tea", headers=headers)
    handled: list[bytes] = []
    open_queue(topic, group=group).run(lambda message: handled.append(message.value), count=1)
    assert handled == [b"tea"]


def test_wrong_payload_and_timeout_are_rejected(asker: Queue) -> None:
    with pytest.raises(QueueError, match="bytes or a string, not dict"):
        asker.request({"item": 1})  # type: ignore[arg-type]
    with pytest.raises(QueueUnusable, match="timeout=0 is not above 0"):
        asker.request("tea", timeout=0)
    for timeout in (math.inf, math.nan):
        with pytest.raises(QueueUnusable, match=f"timeout={timeout} is not at most a day"):
            asker.request("tea", timeout=timeout)
    assert asker._requests.in_flight == 0


def test_request_that_is_too_large_raises_and_is_forgotten(asker: Queue) -> None:
    with pytest.raises(MessageNotStored):
        asker.request(b"x" * 3_000_000, timeout=TIMEOUT_S)
    assert asker._requests.in_flight == 0


def test_requests_in_flight_are_bounded(asker: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests_module, "REQUESTS_MAX", 2)
    waiting = [asker.request_nowait("tea", timeout=TIMEOUT_S) for _ in range(2)]
    with pytest.raises(QueueError, match="2 requests wait"):
        asker.request("tea")
    waiting[0].cancel()
    assert asker._requests.in_flight == 1


def test_closed_queue_ends_its_requests(bootstrap: str, topic: str) -> None:
    with Queue(topic, bootstrap=bootstrap) as queue:
        reply: Future[Reply] = queue.request_nowait("tea", timeout=TIMEOUT_S)
    with pytest.raises(QueueError, match="closed before the reply"):
        reply.result(0)


def test_queue_that_is_not_open_sends_no_request(bootstrap: str, topic: str) -> None:
    with pytest.raises(QueueUnusable, match="not open"):
        Queue(topic, bootstrap=bootstrap).request("tea")


def test_asyncio_requests_and_replies(bootstrap: str, topic: str, group: str) -> None:
    async def handle(message: AsyncMessage) -> bytes:
        if message.value == b"nothing":
            raise LookupError("no such item")
        return message.value.upper()

    async def main() -> None:
        worker = AsyncQueue(topic, group=group, bootstrap=bootstrap)
        async with AsyncQueue(topic, bootstrap=bootstrap) as asker:
            running = asyncio.create_task(worker.run(handle, concurrency=4, reject_on=LookupError))
            replies = await asyncio.gather(*(asker.request(f"item {number}") for number in range(30)))
            assert [each.value for each in replies] == [b"ITEM %d" % number for number in range(30)]
            with pytest.raises(HandlerFailed, match="no such item"):
                await asker.request("nothing")
            worker.stop()
            await running
            with pytest.raises(RequestTimedOut) as caught:
                await asker.request("tea", timeout=0.2)
            assert "no worker" in caught.value.hint
            cancelled = asyncio.create_task(asker.request("tea", timeout=TIMEOUT_S))
            await asyncio.sleep(0.1)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            assert asker._queue._requests.in_flight == 0
            assert (asker.late_replies, asker.duplicate_replies) == (0, 0)

    asyncio.run(main())


def test_async_message_replies_itself(bootstrap: str, topic: str, group: str) -> None:
    async def main() -> None:
        async with (
            AsyncQueue(topic, bootstrap=bootstrap) as asker,
            AsyncQueue(topic, group=group, bootstrap=bootstrap) as worker,
        ):
            asking = asyncio.create_task(asker.request("tea"))
            message = await worker.get(timeout=TIMEOUT_S)
            assert message is not None
            await message.reply("done")
            assert message.is_acknowledged
            assert (await asking).value == b"done"

    asyncio.run(main())


def test_ordered_queue_replies_in_order(
    asker: Queue, open_queue: OpenQueue, topic: str, group: str, broker: object
) -> None:
    if getattr(broker, "kind", "") != "headrace":
        pytest.skip("only Headrace's broker orders messages by key")
    seen: list[bytes] = []

    def handle(message: Message) -> bytes:
        seen.append(message.value)
        time.sleep(0.001)
        return message.value

    with working(open_queue(topic, group=group, ordered=True), handle, concurrency=4):
        replies = [asker.request_nowait(str(number), key="k", timeout=TIMEOUT_S) for number in range(10)]
        assert [each.result(TIMEOUT_S).value for each in replies] == seen
    assert seen == [b"%d" % number for number in range(10)]


def test_request_in_flight_survives_a_restart_of_the_broker(tmp_path: Path) -> None:
    with Broker(str(tmp_path / "data"), port=0) as broker:
        bootstrap = broker.bootstrap
        Cluster(bootstrap, timeout_s=TIMEOUT_S).create_topic("prices", partitions=1)
        asker = Queue("prices", bootstrap=bootstrap, config={"log_level": 0})
        asker.open()
        reply = asker.request_nowait("tea", timeout=TIMEOUT_S)
        asker.flush()
    with asker, Broker(str(tmp_path / "data"), port=int(bootstrap.rpartition(":")[2])):
        with Queue("prices", group="pricing", bootstrap=bootstrap, config={"log_level": 0}) as worker:
            take(worker, 1)[0].reply("3.20")
        assert reply.result(TIMEOUT_S).value == b"3.20"
