"""An answer of a connection: from the request, over the response, to the bytes that are sent."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from headrace.broker.dispatch import Handler
from headrace.protocol.codec import Codec
from headrace.protocol.framing import RequestHeader, response_prefix
from headrace.protocol.types import Buffer

# Below this the parts of an answer are joined before they are sent: a copy is cheaper than a longer iovec.
JOINED_BYTES_MAX = 65_536
# In an answer with more parts, small parts are joined: uvloop closes a connection that writes a million of them.
PARTS_MAX = 1_000


class Answer:
    """A request that was read, and its answer once there is one."""

    __slots__ = ("codec", "done", "handler", "header", "held_bytes", "parts")

    def __init__(
        self, handler: Handler, codec: Codec[Any], header: RequestHeader, request_bytes: int
    ) -> None:
        self.handler = handler
        self.codec = codec
        self.header = header
        # The memory that it holds: the bytes of the request until it is answered, then the answer until it is sent.
        self.held_bytes = request_bytes
        self.done = False
        self.parts: list[Buffer] = []

    def encode(self, response: Any) -> int:
        """Encode a response into `parts`; how many bytes they have."""
        self.codec.write(response, self.parts)
        if len(self.parts) > PARTS_MAX:
            self.parts = _joined(self.parts)
        body_bytes = sum(map(len, self.parts))
        prefix = response_prefix(
            self.handler.api_key,
            self.header.correlation_id,
            flexible=self.codec.flexible,
            body_bytes=body_bytes,
        )
        self.parts.insert(0, prefix)
        return len(prefix) + body_bytes


def _joined(parts: list[Buffer]) -> list[Buffer]:
    """The same bytes in fewer parts; large ones are not copied."""
    joined: list[Buffer] = []
    for is_large, run in groupby(parts, lambda part: len(part) > JOINED_BYTES_MAX):
        if is_large:
            joined += run
        else:
            joined.append(b"".join(run))
    return joined
