"""Ordered queues: messages of a key one after the other, in order, whoever processes them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace import Broker
from headrace.kafka.cluster import Cluster
from headrace.queue import AsyncMessage, AsyncQueue, Message, Queue, QueueUnusable
from headrace.queue.group_settings import ORDER, GroupSettings, read_settings
from headrace.queue.queue import _require_order
from tests.compatibility.brokers import BrokerUnderTest
from tests.queue.conftest import TIMEOUT_S, OpenQueue, Send, take, values


@pytest.fixture(autouse=True)
def ordering(broker: BrokerUnderTest, request: pytest.FixtureRequest) -> None:
    if broker.kind != "headrace" and "on_any_broker" not in request.node.name:
        pytest.skip("only Headrace's broker orders messages by key")


def send_in_turn(send: Send, topic: str, keys: str, count: int) -> None:
    for number in range(count):
        for key in keys:
            send(topic, f"{key}{number}", key=key)


def test_messages_of_a_key_are_taken_one_after_the_other(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send_in_turn(send, topic, "ab", 2)
    with open_queue(topic, group=group, ordered=True) as queue:
        first, second = take(queue, 2)
        assert values([first, second]) == ["a0", "b0"]
        assert queue.get(timeout=0.2) is None, "both keys are at work"
        second.accept()
        third = take(queue, 1)[0]
        assert values([third]) == ["b1"]
        first.accept()
        assert values(take(queue, 1)) == ["a1"]


def test_key_at_work_is_not_delivered_to_another_worker(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send_in_turn(send, topic, "abc", 2)
    with (
        open_queue(topic, group=group, ordered=True, prefetch=1) as one,
        open_queue(topic, group=group, prefetch=1) as other,
    ):
        first = take(one, 1)[0]
        rest = []
        for _ in range(4):
            (message,) = take(other, 1)
            rest.append(message.value.decode())
            message.accept()
        assert rest == ["b0", "c0", "b1", "c1"]
        assert other.get(timeout=0.2) is None
        first.accept()
        assert values(take(other, 1)) == ["a1"]


def test_key_stays_with_its_worker_while_others_join_and_leave(
    open_queue: OpenQueue, create_topic: Callable[..., str], name: str, group: str, send: Send
) -> None:
    """The partitions are assigned again each time."""
    keys, count = "abcdefgh", 3
    topic = create_topic(name, partitions=4)
    send_in_turn(send, topic, keys, count)
    order: dict[str, list[str]] = defaultdict(list)

    def work(workers: list[Queue], total: int) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while sum(map(len, order.values())) < total:
            assert time.monotonic() < deadline_s, order
            for worker in workers:
                message = worker.get(timeout=0.02)
                if message is not None:
                    order[message.value.decode()[0]].append(message.value.decode())
                    message.accept()

    with ExitStack() as opened:

        def workers(number: int) -> list[Queue]:
            opening = (open_queue(topic, group=group, ordered=True, prefetch=1) for _ in range(number))
            return [opened.enter_context(each) for each in opening]

        holders = workers(3)
        held = [take(each, 1)[0] for each in holders]
        held_keys = {message.value.decode()[0] for message in held}
        assert len(held_keys) == 3
        others = workers(6)
        work(others, (len(keys) - 3) * count)
        for leaves in others[:3]:
            leaves.close()
        assert [each.get(timeout=0.2) for each in others[3:]] == [None] * 3
        assert not held_keys & set(order)
        for message in held:
            order[message.value.decode()[0]].append(message.value.decode())
            message.accept()
        work([*holders, *others[3:]], len(keys) * count)
    assert order == {key: [f"{key}{number}" for number in range(count)] for key in keys}


def test_released_message_holds_back_its_key_only(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send_in_turn(send, topic, "ab", 3)
    order: dict[str, list[str]] = defaultdict(list)
    with open_queue(topic, group=group, ordered=True) as queue:
        failures = 2
        while sum(map(len, order.values())) < 6:
            (message,) = take(queue, 1)
            text = message.value.decode()
            if text == "a1" and failures:
                failures -= 1
                message.release("not now")
                continue
            assert message.delivery_count == (3 if text == "a1" else 1), "only the released one was processed"
            order[text[0]].append(text)
            message.accept()
    assert order == {"a": ["a0", "a1", "a2"], "b": ["b0", "b1", "b2"]}


def test_key_continues_after_a_dead_letter(
    open_queue: OpenQueue, set_group: Callable[..., None], topic: str, group: str, send: Send
) -> None:
    set_group(group, share_delivery_count_limit=2)
    send_in_turn(send, topic, "a", 4)
    seen = []
    with open_queue(topic, group=group, ordered=True) as queue:
        while "a3" not in seen:
            (message,) = take(queue, 1)
            seen.append(message.value.decode())
            if seen[-1] == "a0":
                message.reject("broken")
            elif seen[-1] == "a1":
                message.release("again")
            else:
                message.accept()
    assert seen == ["a0", "a1", "a1", "a2", "a3"]


def test_back_off_holds_back_the_key(
    open_queue: OpenQueue, set_group: Callable[..., None], topic: str, group: str, send: Send
) -> None:
    set_group(group, headrace_share_retry_backoff_ms=300)
    send_in_turn(send, topic, "ab", 2)
    seen = []
    with open_queue(topic, group=group, ordered=True) as queue:
        take(queue, 1)[0].release()
        for _ in range(4):
            (message,) = take(queue, 1)
            seen.append(message.value.decode())
            message.accept()
    assert seen == ["b0", "b1", "a0", "a1"]


def test_threads_of_one_queue_never_share_a_key(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    keys, count = "abcde", 12
    send_in_turn(send, topic, keys, count)
    at_work: set[bytes] = set()
    wrong: list[str] = []
    done: dict[str, list[str]] = defaultdict(list)
    lock = threading.Lock()

    def handle(message: Message) -> None:
        key = message.key or b""
        with lock:
            if key in at_work:
                wrong.append(f"two messages of {key!r}")
            at_work.add(key)
        time.sleep(0.001)
        with lock:
            at_work.discard(key)
            done[key.decode()].append(message.value.decode())

    open_queue(topic, group=group, ordered=True).run(handle, concurrency=4, count=len(keys) * count)
    assert not wrong
    assert done == {key: [f"{key}{number}" for number in range(count)] for key in keys}


def test_messages_without_a_key_are_not_ordered(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "1", "2", "3")
    with open_queue(topic, group=group, ordered=True) as queue:
        assert values(take(queue, 3)) == ["1", "2", "3"]


def test_group_that_is_ordered_is_ordered_for_every_worker(
    open_queue: OpenQueue, set_group: Callable[..., None], topic: str, group: str, send: Send
) -> None:
    set_group(group, headrace_share_order="key")
    send_in_turn(send, topic, "a", 2)
    with open_queue(topic, group=group) as queue:
        take(queue, 1)
        assert queue.get(timeout=0.2) is None


def test_group_that_is_set_to_no_order_is_rejected(
    open_queue: OpenQueue, set_group: Callable[..., None], topic: str, group: str
) -> None:
    set_group(group, headrace_share_order="none")
    with pytest.raises(QueueUnusable, match="is not ordered") as caught:
        open_queue(topic, group=group, ordered=True).open()
    assert f"headrace queue alter {group} --config {ORDER}=key" in caught.value.hint


def test_broker_without_order_is_rejected() -> None:
    """The settings of a group on Apache Kafka, which has no order."""
    with pytest.raises(QueueUnusable, match="does not order messages by key"):
        _require_order("g", GroupSettings(values={"share.auto.offset.reset": "earliest"}, given=frozenset()))


def test_ordered_queue_opens_or_says_why_not_on_any_broker(
    open_queue: OpenQueue, broker: BrokerUnderTest, topic: str, group: str
) -> None:
    queue = open_queue(topic, group=group, ordered=True)
    if broker.kind == "headrace":
        with queue:
            assert queue.get(timeout=0) is None
        return
    with pytest.raises(QueueUnusable, match="does not order messages by key") as caught:
        queue.open()
    assert "Headrace's broker" in caught.value.hint


def test_unknown_order_is_rejected_by_the_broker(bootstrap: str, group: str) -> None:
    cluster = Cluster(bootstrap, timeout_s=TIMEOUT_S)
    with pytest.raises(Exception, match="none"):
        cluster.alter_configs("group", group, {ORDER: "time"})
    assert read_settings(cluster, group).values[ORDER] == "none"


def test_async_queue_keeps_the_order(bootstrap: str, topic: str, group: str, send: Send) -> None:
    keys, count = "abc", 5
    send_in_turn(send, topic, keys, count)
    done: dict[str, list[str]] = defaultdict(list)

    async def handle(message: AsyncMessage) -> None:
        text = message.value.decode()
        done[text[0]].append(text)

    queue = AsyncQueue(topic, group=group, bootstrap=bootstrap, ordered=True)
    asyncio.run(queue.run(handle, concurrency=8, count=len(keys) * count))
    assert done == {key: [f"{key}{number}" for number in range(count)] for key in keys}


def test_restarted_broker_delivers_a_key_when_the_old_locks_are_over(tmp_path: Path) -> None:
    """A worker may still process what it got before the broker was killed."""
    lock_s = 2.0
    with Broker(str(tmp_path / "data"), port=0) as broker:
        bootstrap = broker.bootstrap
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for number in range(3):
            producer.produce("orders", f"a{number}", "a")
        assert producer.flush(TIMEOUT_S) == 0
        settings = {"share.record.lock.duration.ms": str(int(lock_s * 1000))}
        Cluster(bootstrap, timeout_s=TIMEOUT_S).alter_configs("group", "g", settings)
        held = Queue("orders", group="g", bootstrap=bootstrap, ordered=True, config={"log_level": 0})
        held.open()
        take(held, 1)
        locked_at_s = time.monotonic()
    port = int(bootstrap.rpartition(":")[2])
    with Broker(str(tmp_path / "data"), port=port), Queue("orders", group="g", bootstrap=bootstrap) as queue:
        assert values(take(queue, 1)) == ["a0"]
        assert time.monotonic() >= locked_at_s + lock_s
        held.close()
