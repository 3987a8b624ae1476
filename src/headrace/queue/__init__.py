"""The worker's side of a queue: a share group seen as messages to accept, release or reject.

    from headrace.queue import Queue

    with Queue("emails", group="senders", bootstrap="127.0.0.1:9092") as queue:
        for message in queue:
            send(message.value)
            message.accept()

It speaks to Headrace's broker and to Apache Kafka 4.2 and later, over the wire (confluent-kafka's ShareConsumer).
What only Headrace's broker does is said where it matters.
"""

from headrace.queue.errors import AcknowledgementLost, MessageSettled, QueueError, QueueUnusable
from headrace.queue.message import Message
from headrace.queue.queue import Queue

__all__ = ["AcknowledgementLost", "Message", "MessageSettled", "Queue", "QueueError", "QueueUnusable"]
