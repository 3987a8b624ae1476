"""A request of a connection and its response, up to the bytes that are sent."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from msgspec import Struct, field

from headrace.broker.dispatch import Handler
from headrace.protocol.codec import Codec
from headrace.protocol.framing import RequestHeader, response_prefix
from headrace.protocol.types import Buffer

# Below this the parts of a response are joined before they are sent: a copy is cheaper than a longer iovec.
JOINED_BYTES_MAX = 65_536
# In a response with more parts, small parts are joined: uvloop closes a connection that writes a million of them.
PARTS_MAX = 1_000


class Exchange(Struct, eq=False):
    """A request that was read, and its response once there is one."""

    handler: Handler
    codec: Codec[Any]
    header: RequestHeader
    held_bytes: int
    """The memory that it holds: the bytes of the request until it is handled, then the response until it is sent."""
    done: bool = False
    parts: list[Buffer] = field(default_factory=list)

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
