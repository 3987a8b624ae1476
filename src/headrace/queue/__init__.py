"""The worker's side of a queue: a share group seen as messages to accept, release or reject.

    from headrace.queue import Queue

    with Queue("emails", group="senders") as queue:
        for message in queue:
            send(message.value)
            message.accept()

`Queue.run` is the same loop with threads, signals and errors taken care of; `AsyncQueue` is the form for asyncio. Both
speak to Headrace's broker and to Apache Kafka 4.2 and later, over the wire (confluent-kafka's ShareConsumer). What only
Headrace's broker does is documented where it matters.
"""

from headrace.queue.async_queue import AsyncMessage, AsyncQueue
from headrace.queue.errors import (
    AcknowledgementLost,
    MessageNotStored,
    MessageSettled,
    QueueError,
    QueueUnusable,
)
from headrace.queue.message import Message, Place
from headrace.queue.queue import Queue

__all__ = [
    "AcknowledgementLost",
    "AsyncMessage",
    "AsyncQueue",
    "Message",
    "MessageNotStored",
    "MessageSettled",
    "Place",
    "Queue",
    "QueueError",
    "QueueUnusable",
]
