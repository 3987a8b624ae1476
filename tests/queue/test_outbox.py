"""Putting messages: each is stored when it is confirmed, and a message that is not stored is an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker
from headrace.queue import MessageId, MessageNotStored, Queue, QueueUnusable
from tests.queue.conftest import TIMEOUT_S, OpenQueue, take, values


def test_message_that_was_put_is_delivered_with_key_and_headers(
    open_queue: OpenQueue, topic: str, group: str
) -> None:
    with open_queue(topic, group=group) as queue:
        stored = queue.put("hello", key="k", headers={"colour": "red", "nothing": None})
        assert stored == MessageId(topic, 0, 0)
        (message,) = take(queue, 1)
        assert (message.value, message.key, message.id) == (b"hello", b"k", stored)
        assert message.headers == [("colour", b"red"), ("nothing", None)]
        message.accept()


def test_queue_without_a_group_only_puts(
    open_queue: OpenQueue, bootstrap: str, topic: str, group: str
) -> None:
    with Queue(topic, bootstrap=bootstrap) as queue:
        queue.put(b"hello")
        with pytest.raises(QueueUnusable, match="without a group"):
            queue.get(timeout=0)
    with open_queue(topic, group=group) as queue:
        assert values(take(queue, 1)) == ["hello"]


def test_messages_put_without_waiting_are_stored_when_flushed(
    open_queue: OpenQueue, topic: str, group: str
) -> None:
    expected = [f"message {number}" for number in range(200)]
    with open_queue(topic, group=group) as queue:
        stored = [queue.put_nowait(text) for text in expected]
        queue.flush()
        assert [future.result(0).offset for future in stored] == list(range(200))
        assert values(take(queue, 1)) == expected[:1]


def test_put_waits_for_room_in_the_buffer_of_the_client(bootstrap: str, topic: str) -> None:
    with Queue(topic, bootstrap=bootstrap, config={"queue.buffering.max.messages": 2}) as queue:
        stored = [queue.put_nowait(str(number)) for number in range(50)]
        assert [future.result(TIMEOUT_S).offset for future in stored] == list(range(50))


def test_queue_of_several_topics_names_the_one_to_put_to(
    open_queue: OpenQueue, create_topic: Callable[..., str], name: str, group: str
) -> None:
    topics = [create_topic(f"{name}.eu"), create_topic(f"{name}.us")]
    with open_queue(group=group, pattern=rf"{name}\..*") as queue:
        with pytest.raises(QueueUnusable, match="topic="):
            queue.put("to nowhere")
        with pytest.raises(QueueUnusable, match=f"there is no topic {name}.uk"):
            queue.put("to nowhere", topic=f"{name}.uk")
        for topic in topics:
            assert queue.put(f"to {topic}", topic=topic) == MessageId(topic, 0, 0)
            (message,) = take(queue, 1)
            message.accept()
            assert message.value.decode() == f"to {topic}"


def test_message_that_the_broker_rejects_is_an_error(
    admin: AdminClient, open_queue: OpenQueue, name: str, group: str
) -> None:
    admin.create_topics([NewTopic(name, 1, 1, config={"max.message.bytes": "1000"})])[name].result(TIMEOUT_S)
    with open_queue(name, group=group) as queue:
        with pytest.raises(MessageNotStored, match=r"topic .* was not stored: .*max\.message\.bytes"):
            queue.put("x" * 10_000)
        queue.put_nowait("y" * 10_000)
        with pytest.raises(MessageNotStored, match="1 messages were not stored"):
            queue.flush()
        assert queue.put("small").offset == 0
        queue.flush()


def test_put_fails_while_the_broker_is_unavailable_and_works_after_its_restart(tmp_path: Path) -> None:
    with Broker(str(tmp_path / "data")) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("emails", 1, 1)])["emails"].result(TIMEOUT_S)
        config = {"reconnect.backoff.max.ms": 100}
        queue = Queue("emails", bootstrap=broker.bootstrap, timeout_s=2, config=config)
        queue.open()
        assert queue.put("one").offset == 0
        port = int(broker.bootstrap.rpartition(":")[2])
        del admin
    with pytest.raises(MessageNotStored, match="is the broker running"):
        queue.put("two")
    with Broker(str(tmp_path / "data"), port=port), queue:
        assert queue.put("three").offset == 1


def test_put_needs_an_open_queue(open_queue: OpenQueue, topic: str, group: str) -> None:
    with pytest.raises(QueueUnusable, match="not open"):
        open_queue(topic, group=group).put("hello")
