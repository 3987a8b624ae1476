"""A message: its content, and its acknowledgement."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.queue import AlreadyAcknowledged
from tests.queue.conftest import TIMEOUT_S, OpenQueue, Send, take, values


def test_message_has_the_content_and_the_id_of_its_record(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    before = datetime.now(UTC)
    send(topic, "hello", key="k", colour="red")
    with open_queue(topic, group=group) as queue:
        (message,) = take(queue, 1)
        assert (message.value, message.key, message.headers) == (b"hello", b"k", [("colour", b"red")])
        assert (message.topic, message.partition, message.offset) == (topic, 0, 0)
        assert message.delivery_count == 1
        assert abs((message.timestamp - before).total_seconds()) < TIMEOUT_S


def test_accepted_message_is_not_redelivered_to_the_group(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "one", "two")
    with open_queue(topic, group=group) as queue:
        for message in take(queue, 2):
            message.accept()
        queue.flush()
    send(topic, "three")
    with open_queue(topic, group=group) as queue:
        assert values(take(queue, 1)) == ["three"]


def test_released_message_is_redelivered_with_a_higher_delivery_count(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "again")
    with open_queue(topic, group=group) as queue:
        take(queue, 1)[0].release()
        (message,) = take(queue, 1)
        assert (message.value, message.delivery_count) == (b"again", 2)
        message.accept()


def test_message_can_be_acknowledged_once_only(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "one")
    with open_queue(topic, group=group) as queue:
        (message,) = take(queue, 1)
        message.accept()
        with pytest.raises(AlreadyAcknowledged):
            message.reject("too late")


def test_process_accepts_at_its_end_and_releases_or_rejects_on_an_error(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "good", "busy", "bad")
    with open_queue(topic, group=group) as queue:
        good, busy, bad = take(queue, 3)
        with good.process():
            assert good.value == b"good"
        with pytest.raises(ConnectionError), busy.process(reject_on=(ValueError,)):
            raise ConnectionError("server is busy")
        with pytest.raises(ValueError, match="no such mailbox"), bad.process(reject_on=(ValueError,)):
            raise ValueError("no such mailbox")
        assert (good.is_acknowledged, bad.is_acknowledged) == (True, True)
        (again,) = take(queue, 1)
        assert (again.value, again.delivery_count) == (b"busy", 2)
        again.accept()
        queue.flush()
        assert queue.get(timeout=0.2) is None
