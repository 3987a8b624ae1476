"""How a request names where its reply goes: headers of the message."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from headrace.queue.errors import QueueError

REQUEST_ID_HEADER = "headrace.request.id"
REPLY_PARTITION_HEADER = "headrace.reply.partition"
DEADLINE_HEADER = "headrace.request.deadline.ms"
REQUEST_HEADERS = (REQUEST_ID_HEADER, REPLY_PARTITION_HEADER, DEADLINE_HEADER)
ERROR_HEADER = "headrace.reply.error"

_PARTITION = re.compile(rb"[0-9]{1,9}")
_DEADLINE = re.compile(rb"[0-9]{1,15}")
"""Any producer can write these headers, and Python does not convert thousands of digits."""

Headers = Sequence[tuple[str, bytes | None]]


class ReplyTo(Struct, frozen=True):
    """Where the reply to a request goes."""

    request_id: str
    partition: int
    deadline_ms: int
    """By the clock of the client; nobody waits for the reply after it."""

    def headers(self) -> list[tuple[str, bytes]]:
        return [
            (REQUEST_ID_HEADER, self.request_id.encode()),
            (REPLY_PARTITION_HEADER, str(self.partition).encode()),
            (DEADLINE_HEADER, str(self.deadline_ms).encode()),
        ]


def reply_to(headers: Headers) -> ReplyTo | None:
    """None if the message is no request, or does not say completely where its reply goes."""
    found = dict(headers)
    request_id, partition, deadline_ms = (found.get(name) or b"" for name in REQUEST_HEADERS)
    if not (request_id and _PARTITION.fullmatch(partition) and _DEADLINE.fullmatch(deadline_ms)):
        return None
    return ReplyTo(request_id.decode(errors="replace"), int(partition), int(deadline_ms))


def content(value: bytes | str | None) -> bytes:
    """The bytes of a value that a caller gave."""
    if value is None:
        return b""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise QueueError(
        f"a value is bytes or a string, not {type(value).__name__}", hint="encode it first, as JSON perhaps"
    )
