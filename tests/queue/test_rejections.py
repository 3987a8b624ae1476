"""The reason of a rejection is written before the rejection; without it, the message is not rejected."""

from __future__ import annotations

import pytest

from headrace.queue import DeadLetters, QueueError
from headrace.queue.rejections import REASON_BYTES_MAX
from tests.queue.conftest import OpenQueue, Send, take
from tests.queue.test_dead_letters import letters_when


def test_long_reason_is_truncated_between_characters(
    bootstrap: str, open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "bad")
    with open_queue(topic, group=group) as queue:
        take(queue, 1)[0].reject("x" + "é" * REASON_BYTES_MAX)
    (letter,) = letters_when(DeadLetters(group, bootstrap=bootstrap), 1)
    assert letter.reason == "x" + "é" * ((REASON_BYTES_MAX - 1) // 2)


def test_rejection_without_a_reason_still_becomes_a_letter(
    bootstrap: str, open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "bad")
    with open_queue(topic, group=group) as queue:
        take(queue, 1)[0].reject()
    (letter,) = letters_when(DeadLetters(group, bootstrap=bootstrap), 1)
    assert "rejected by" in letter.reason


def test_message_whose_reason_cannot_be_written_stays_locked(
    bootstrap: str, open_queue: OpenQueue, topic: str, group: str, send: Send, name: str
) -> None:
    send(topic, "bad")
    with open_queue(topic, group=group, config={"message.max.bytes": 1000}) as queue:
        (message,) = take(queue, 1)
        with pytest.raises(QueueError, match="the message is not rejected"):
            message.reject("x" * 2000)
        assert not message.is_acknowledged
        message.accept()
        queue.flush()
    assert DeadLetters(group, bootstrap=bootstrap).count() == 0
