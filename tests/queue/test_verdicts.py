"""What is written before the last acknowledgement. How it reads is tested with the queue, in test_rejections."""

from __future__ import annotations

from confluent_kafka import AcknowledgeType

from tests.queue.conftest import OpenQueue, Send


def test_release_is_a_release_until_the_last_delivery(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "a")
    with open_queue(topic, group=group) as queue:
        message = queue.get(30)
        assert message is not None
        verdicts = queue.deliveries._verdicts
        assert verdicts.prepare(message, AcknowledgeType.RELEASE, "") is AcknowledgeType.RELEASE
        assert verdicts.prepare(message, AcknowledgeType.ACCEPT, "") is AcknowledgeType.ACCEPT
        assert verdicts.prepare(message, AcknowledgeType.REJECT, "why") is AcknowledgeType.REJECT
        message.accept()
