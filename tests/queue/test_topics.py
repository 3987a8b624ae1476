"""Load balancing, fan-out, both together, topics by pattern, and a log beside a queue on the same topic."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer

from headrace.queue import Queue
from tests.queue.conftest import TIMEOUT_S, OpenQueue, Send, take, values

MESSAGES = [f"message {number}" for number in range(20)]


def drain(*queues: Queue, count: int) -> list[list[str]]:
    """Accept `count` messages, taken by turns; what each queue got."""
    got: list[list[str]] = [[] for _ in queues]
    while sum(map(len, got)) < count:
        for queue, mine in zip(queues, got, strict=True):
            message = queue.get(timeout=0.2)
            if message is not None:
                mine.append(message.value.decode())
                message.accept()
    return got


def test_workers_of_one_group_share_the_messages_of_one_partition(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    with open_queue(topic, group=group, prefetch=1) as one, open_queue(topic, group=group, prefetch=1) as two:
        send(topic, *MESSAGES)
        mine, yours = drain(one, two, count=len(MESSAGES))
    assert sorted(mine + yours) == sorted(MESSAGES)
    assert mine
    assert yours


def test_every_group_gets_all_messages_and_shares_them_among_its_workers(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, *MESSAGES)
    with (
        open_queue(topic, group=group) as alone,
        open_queue(topic, group=f"{group}-2", prefetch=1) as one,
        open_queue(topic, group=f"{group}-2", prefetch=1) as two,
    ):
        assert drain(alone, count=len(MESSAGES)) == [MESSAGES]
        mine, yours = drain(one, two, count=len(MESSAGES))
    assert sorted(mine + yours) == sorted(MESSAGES)


def test_pattern_includes_topics_that_are_created_later_and_their_first_messages(
    open_queue: OpenQueue, create_topic: Callable[..., str], name: str, group: str, send: Send
) -> None:
    send(create_topic(f"{name}.eu"), "from eu")
    send(create_topic(f"{name}-other"), "not this")
    with open_queue(group=group, pattern=rf"{name}\..*") as queue:
        (message,) = take(queue, 1)
        message.accept()
        assert message.topic == f"{name}.eu"
        send(create_topic(f"{name}.us"), "from us")
        (message,) = take(queue, 1)
        message.accept()
        assert message.value == b"from us"


def test_pattern_skips_the_dead_letters_of_its_own_group(
    open_queue: OpenQueue, topic: str, name: str, group: str, send: Send
) -> None:
    send(topic, "bad")
    dead_letters = f"{name}-dead"
    with open_queue(group=group, pattern=f"{name}.*", dead_letters=dead_letters) as queue:
        take(queue, 1)[0].reject("bad")
        queue.flush()
    with open_queue(dead_letters, group=f"{group}-2") as queue:
        assert values(take(queue, 1)) == ["bad"]
    with open_queue(group=group, pattern=f"{name}.*", dead_letters=dead_letters) as queue:
        assert queue.get(timeout=1) is None


def test_consumer_group_and_queue_read_one_topic_independently(
    open_queue: OpenQueue, bootstrap: str, topic: str, group: str, send: Send
) -> None:
    send(topic, *MESSAGES)
    with open_queue(topic, group=group) as queue:
        first, *others = take(queue, len(MESSAGES))
        for message in others:
            message.accept()
        first.release()
        log = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": f"{group}-log", "auto.offset.reset": "earliest"}
        )
        log.subscribe([topic])
        read = [(message.value() or b"").decode() for message in log.consume(len(MESSAGES), TIMEOUT_S)]
        log.close()
        (again,) = take(queue, 1)
        again.accept()
    assert read == MESSAGES
    assert again.value == first.value
