"""Dead letters of a target of a topic: copies of records that could not be delivered, in `dlq.headrace-webhook-NAME`.

A letter carries the target and the id of its message in headers that a redrive keeps. So the record that a redrive
appends goes to this target only, with the id that its receiver may know.
"""

from __future__ import annotations

import asyncio

from headrace.dead_letters import TOPIC_CONFIG, dead_letter_topic
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed
from headrace.queue.errors import MessageNotStored
from headrace.queue.letters import letter_headers
from headrace.queue.outbox import Outbox
from headrace.webhooks.outgoing.message import REDRIVEN_FOR_HEADER, REDRIVEN_ID_HEADER, Outgoing
from headrace.webhooks.outgoing.target import Target

RETRY_S = 1.0
"""A letter that the broker has not stored is written again: its record stays uncommitted until then."""

LETTER_BYTES_SPARE = 65_536
"""The headers of a letter: the largest record of the topic fits its dead-letter topic."""

MESSAGE_BYTES_MAX = 1_000_000_000
"""Of the client: the broker knows the limit of the topic."""

BYTES_CONFIG = "max.message.bytes"

_OWN = frozenset({REDRIVEN_FOR_HEADER, REDRIVEN_ID_HEADER})


class Letters:
    def __init__(self, target: Target, cluster: Cluster) -> None:
        self._target = target
        self._cluster = cluster
        self._topic = dead_letter_topic(target.group)
        self._outbox = Outbox(
            {
                **cluster.client_config(message_max_bytes=MESSAGE_BYTES_MAX),
                "error_cb": lambda _error: None,
            },
            cluster.timeout_s,
        )
        self._is_created = False
        self._creating = asyncio.Lock()

    async def write(self, message: Outgoing, reason: str) -> None:
        """Until the broker has stored it. May be cancelled; then the letter may exist."""
        headers = letter_headers(
            [
                *(pair for pair in message.headers if pair[0] not in _OWN),
                (REDRIVEN_FOR_HEADER, self._target.name.encode()),
                (REDRIVEN_ID_HEADER, message.message_id.encode()),
            ],
            original=message.origin,
            group=self._target.group,
            delivery_count=message.attempts,
            reason=reason,
        )
        while True:
            try:
                await self._create()
                stored = self._outbox.send(self._topic, message.value, message.key, headers)
                await asyncio.wrap_future(stored)
                return
            except (MessageNotStored, RequestFailed, BufferError):
                await asyncio.sleep(RETRY_S)

    async def _create(self) -> None:
        async with self._creating:
            if not self._is_created:
                await asyncio.to_thread(self._create_topic)
                self._is_created = True

    def _create_topic(self) -> None:
        largest = self._cluster.configs("topic", self._target.source)[BYTES_CONFIG].value
        config = {**TOPIC_CONFIG, BYTES_CONFIG: str(int(largest or 1_048_588) + LETTER_BYTES_SPARE)}
        self._cluster.create_topic(self._topic, config=config, exist_ok=True)
        self._outbox.started()

    def close(self) -> None:
        self._outbox.close()
