"""Replies to requests: their topic, and the worker's side that writes them.

All replies of a cluster go to one topic with a short retention. A client that sends requests reads one partition of it
and names that partition in its requests, so nothing has to be created or deleted for a client.
"""

from __future__ import annotations

import logging

from headrace.kafka.cluster import Cluster
from headrace.queue.errors import QueueError, queue_errors
from headrace.queue.outbox import Outbox
from headrace.queue.reply_to import ERROR_HEADER, ReplyTo

logger = logging.getLogger("headrace.queue")

REPLIES_TOPIC = "headrace.replies"
REPLIES_PARTITIONS = 8
"""Clients that are in one partition read each other's replies, and skip them."""

REPLIES_CONFIG = {"retention.ms": "3600000", "segment.ms": "600000"}
"""A reply is read within milliseconds. An hour is for people who search one."""

ERROR_BYTES_MAX = 8_192
"""An error is a sentence, or a traceback."""


class Replies:
    """The worker's side."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def send(self, to: ReplyTo, value: bytes) -> None:
        """Write a reply and wait until it is stored; raises MessageNotStored."""
        self._write(to, value, [])

    def send_error(self, to: ReplyTo, reason: str) -> None:
        """Write the error that the client gets instead. If that fails, the client learns of it by its time-out."""
        error = reason.encode()[:ERROR_BYTES_MAX] or b"rejected"
        try:
            self._write(to, b"", [(ERROR_HEADER, error)])
        except QueueError as failure:
            logger.warning("the error reply to request %s was not stored: %s", to.request_id, failure)

    def _write(self, to: ReplyTo, value: bytes, headers: list[tuple[str, bytes | None]]) -> None:
        self._outbox.send_when_room(
            REPLIES_TOPIC, value, to.request_id, headers, partition=to.partition
        ).result()


def reply_partitions(cluster: Cluster) -> int:
    """How many partitions the topic of replies has; it is created if it is missing."""
    with queue_errors():
        if REPLIES_TOPIC not in cluster.topics():
            cluster.create_topic(
                REPLIES_TOPIC, partitions=REPLIES_PARTITIONS, config=REPLIES_CONFIG, exist_ok=True
            )
        # Brokers learn of a new topic a moment after it was created.
        cluster.require_topics([REPLIES_TOPIC], appear_s_max=cluster.timeout_s)
        return len(cluster.partitions(REPLIES_TOPIC))
