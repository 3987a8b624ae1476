"""What travels with each event of a numbered feed, as headers of its record: its number, and what is lost before it.

feed.stream     the numbering, 16 hexadecimal digits
feed.number     the number of the event
feed.first      the record accounts for the numbers from here on; missing: for its own number only
feed.missing    how many of these were missing: they did not arrive, and were not recovered
feed.dropped    how many events the edge had to drop before this one, because of overload
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from headrace.edges.direct.packet import NumberedEvent
from headrace.edges.event import Event, Headers

STREAM = "feed.stream"
NUMBER = "feed.number"
FIRST = "feed.first"
MISSING = "feed.missing"
DROPPED = "feed.dropped"

_PREFIX = "feed."


class Carried(Struct, frozen=True, kw_only=True, gc=False):
    stream: int
    number: int
    first: int
    missing: int = 0
    dropped: int = 0

    @property
    def losses(self) -> int:
        return self.missing + self.dropped


def carrying(topic: str, event: NumberedEvent, carried: Carried) -> Event:
    """The event of a record. Most carry no loss: this runs for each."""
    headers: list[tuple[str, bytes | None]] = [*without_feed(event.headers)] if event.headers else []
    headers += ((STREAM, b"%016x" % carried.stream), (NUMBER, b"%d" % carried.number))
    if carried.first != carried.number:
        headers.append((FIRST, b"%d" % carried.first))
    if carried.missing:
        headers.append((MISSING, b"%d" % carried.missing))
    if carried.dropped:
        headers.append((DROPPED, b"%d" % carried.dropped))
    return Event(
        topic=topic,
        key=event.key,
        value=event.value,
        headers=tuple(headers),
        timestamp_ms=event.timestamp_ms,
    )


def carried_by(headers: Iterable[tuple[str, bytes | None]]) -> Carried | None:
    """None if the record is not of a numbered feed."""
    found = {name: value for name, value in headers if name.startswith(_PREFIX) and value}
    try:
        number = int(found[NUMBER])
        return Carried(
            stream=int(found[STREAM], 16),
            number=number,
            first=int(found.get(FIRST, number)),
            missing=int(found.get(MISSING, 0)),
            dropped=int(found.get(DROPPED, 0)),
        )
    except (KeyError, ValueError):
        return None


def without_feed(headers: Headers) -> Headers:
    """The headers that are the user's own: a topic that a feed was received into may be published again."""
    return tuple(each for each in headers if not each[0].startswith(_PREFIX))
