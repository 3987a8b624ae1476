"""The id of an event in a stream: `POSITION.TIME.CLUSTER`.

The position is the next offset of every partition of the stream, so that a stream resumes exactly. The time is that of
the record, in milliseconds, and serves on another cluster, whose offsets are others. The cluster tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from headrace.gateway.errors import BadRequest
from headrace.kafka.position import BadPosition, Position

CHARACTERS_MAX = 60_000
"""Of an id in a request; several thousand partitions have room."""


class EventId(Struct, frozen=True):
    offsets: Mapping[str, Mapping[int, int]]
    time_ms: int
    cluster: str

    def text(self) -> str:
        return f"{Position(self.offsets).token()}.{self.time_ms}.{self.cluster}"

    @classmethod
    def from_text(cls, text: str) -> EventId:
        token, _, rest = text.partition(".")
        time_ms, _, cluster = rest.partition(".")
        try:
            return cls(offsets_of(token), int(time_ms), cluster)
        except ValueError:
            raise BadRequest(
                f"{text[:80]!r} is not the id of an event",
                hint="pass the id of an event of a stream unchanged",
            ) from None


def offsets_of(token: str) -> Mapping[str, Mapping[int, int]]:
    """Of a token of a position, in which no number is negative."""
    offsets = Position.from_token(token).offsets
    for partitions in offsets.values():
        if any(not 0 <= number < 2**31 or not 0 <= offset < 2**63 for number, offset in partitions.items()):
            raise BadPosition(
                f"{token[:80]!r} is not a position", hint="pass the token of a write or of a read unchanged"
            )
    return offsets
