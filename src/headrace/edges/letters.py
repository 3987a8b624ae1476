"""Dead letters of edges: input that did not become an event, with the reason."""

from __future__ import annotations

from headrace.dead_letters import GROUP_HEADER, REASON_HEADER, TRUNCATED_HEADER, dead_letter_topic
from headrace.edges.event import Event


def garbage_letter(topic: str, edge: str, garbage: bytes, reason: str, *, bytes_max: int) -> Event:
    """For the dead-letter topic of a topic; garbage that is longer is truncated."""
    headers: list[tuple[str, bytes | None]] = [
        (GROUP_HEADER, edge.encode()),
        (REASON_HEADER, reason.encode()),
    ]
    if len(garbage) > bytes_max:
        headers.append((TRUNCATED_HEADER, str(len(garbage)).encode()))
    return Event(topic=dead_letter_topic(topic), value=garbage[:bytes_max], headers=tuple(headers))
