"""One request to a target outside of its topic, to see whether it answers."""

from __future__ import annotations

import secrets
import socket

from headrace.clock import Clock
from headrace.queue.message import MessageId
from headrace.webhooks.outgoing.dialling import Lookup
from headrace.webhooks.outgoing.message import Outgoing
from headrace.webhooks.outgoing.outcomes import Answer
from headrace.webhooks.outgoing.sender import Sender
from headrace.webhooks.outgoing.settings import OutgoingSettings
from headrace.webhooks.outgoing.target import Target

SAMPLE = b'{"type": "headrace.test", "message": "headrace webhook out test"}'


async def send_sample(
    target: Target,
    settings: OutgoingSettings,
    clock: Clock,
    *,
    value: bytes = SAMPLE,
    lookup: Lookup = socket.getaddrinfo,
) -> tuple[str, Answer]:
    """The id of the request, and what came of it. Each sample has an id of its own."""
    message = Outgoing(
        message_id=f"test_{secrets.token_hex(10)}",
        origin=MessageId(target.source, -1, -1),
        timestamp_ms=clock.now_ms(),
        key=None,
        value=value,
        headers=(),
    )
    sender = Sender(target, settings, clock, lookup=lookup)
    try:
        return message.message_id, await sender.send(message)
    finally:
        await sender.close()
