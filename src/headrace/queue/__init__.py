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

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.queue.async_queue import AsyncMessage, AsyncQueue
    from headrace.queue.dead_letters import DeadLetters, Discarded, NoDeadLetters, Redriven, matching
    from headrace.queue.errors import (
        AcknowledgementLost,
        AlreadyAcknowledged,
        HandlerFailed,
        MessageNotStored,
        NotARequest,
        QueueError,
        QueueUnusable,
        RequestTimedOut,
    )
    from headrace.queue.letters import DeadLetter
    from headrace.queue.message import Message, MessageId
    from headrace.queue.queue import Queue, QueueOptions, StartAt
    from headrace.queue.requests import Reply
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "async_queue": ("AsyncMessage", "AsyncQueue"),
            "dead_letters": ("DeadLetters", "Discarded", "NoDeadLetters", "Redriven", "matching"),
            "errors": (
                "AcknowledgementLost",
                "MessageNotStored",
                "AlreadyAcknowledged",
                "HandlerFailed",
                "NotARequest",
                "QueueError",
                "QueueUnusable",
                "RequestTimedOut",
            ),
            "letters": ("DeadLetter",),
            "message": ("Message", "MessageId"),
            "queue": ("StartAt", "Queue", "QueueOptions"),
            "requests": ("Reply",),
        },
    )

__all__ = [
    "AcknowledgementLost",
    "AlreadyAcknowledged",
    "AsyncMessage",
    "AsyncQueue",
    "DeadLetter",
    "DeadLetters",
    "Discarded",
    "HandlerFailed",
    "Message",
    "MessageId",
    "MessageNotStored",
    "NoDeadLetters",
    "NotARequest",
    "Queue",
    "QueueError",
    "QueueOptions",
    "QueueUnusable",
    "Redriven",
    "Reply",
    "RequestTimedOut",
    "StartAt",
    "matching",
]
