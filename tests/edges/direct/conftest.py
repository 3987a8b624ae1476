"""Packets and events of numbered feeds."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable

from confluent_kafka import Producer

from headrace.edges.direct.packet import NumberedEvent, Packet

STREAM = 7


def event(number: int) -> NumberedEvent:
    return NumberedEvent(number=number, timestamp_ms=1_700_000_000_000, value=b"%d" % number)


def packet(first: int, next: int | None = None, *, stream: int = STREAM) -> Packet:
    """One with an event for each number; `packet(5)` has event 5 only."""
    next = first + 1 if next is None else next
    return Packet(stream=stream, first=first, next=next, events=tuple(map(event, range(first, next))))


def heartbeat(next: int, *, stream: int = STREAM) -> Packet:
    return Packet(stream=stream, first=next, next=next)


def numbers(events: Iterable[NumberedEvent]) -> list[int]:
    return [each.number for each in events]


def free_group() -> tuple[str, int]:
    """A group and a port that nothing else on this machine uses, most likely."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return f"239.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(1, 255)}", port


def write_in_transactions(bootstrap: str, topic: str) -> None:
    """Offset 0 and its marker, 2, which is aborted, and its marker, 4 and its marker."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for ends in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"x")
        assert producer.flush(60) == 0
        ends()
