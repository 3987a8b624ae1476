"""Messages that the gateway has locked for its clients, and what may become of them. It knows no thread and no time.

A lease is READY until a client receives the message, HELD until the client acknowledges it, in flight while the broker
answers, and DONE. In an ordered group at most one message of a key is held; the next ones stay ready.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable
from enum import Enum, auto
from typing import TYPE_CHECKING

from confluent_kafka import AcknowledgeType
from msgspec import Struct

from headrace.queue.message import Delivery

if TYPE_CHECKING:
    from headrace.gateway.queues.consumer import Consumer

Lane = tuple[int, bytes]
"""Partition and key."""

DONE_MAX = 10_000
"""Leases whose end is remembered, so that a client that repeats a request gets the same answer."""


class LeaseState(Enum):
    READY = auto()
    HELD = auto()
    IN_FLIGHT = auto()
    DONE = auto()


class Lease(Struct, eq=False, kw_only=True):
    number: int
    message: Delivery
    consumer: Consumer
    until_s: float
    """By the monotonic clock. The lock ends after that."""
    state: LeaseState = LeaseState.READY
    is_over: bool = False
    """Its lock has ended, or ends now: a client's acknowledgement is late."""

    @property
    def lane(self) -> Lane | None:
        """None for a message without a key, which is not ordered."""
        key = self.message.key
        return None if key is None else (self.message.partition, key)


class Leases:
    """Of one topic and group."""

    def __init__(self) -> None:
        self.is_ordered = False
        self._open: dict[int, Lease] = {}
        self._done: OrderedDict[int, AcknowledgeType | None] = OrderedDict()
        self._ready: deque[Lease] = deque()
        self._of: defaultdict[Consumer, set[Lease]] = defaultdict(set)
        self._lanes: dict[Lane, Lease] = {}
        """By key, the one that is held."""

    def __len__(self) -> int:
        """Those that are not done."""
        return len(self._open)

    def add(self, leases: Iterable[Lease]) -> None:
        for each in leases:
            self._open[each.number] = each
            self._of[each.consumer].add(each)
            self._ready.append(each)

    def get(self, number: int) -> Lease | None:
        """None if it is done."""
        return self._open.get(number)

    def of(self, consumer: Consumer) -> Collection[Lease]:
        """Those that are not done."""
        return self._of.get(consumer, ())

    def outcome(self, number: int) -> AcknowledgeType | None:
        """How a client acknowledged one that is done; None if its lock ended, or if that is long ago."""
        return self._done.get(number)

    def take(self, count: int) -> list[Lease]:
        """Hold the next ones, for a client."""
        taken: list[Lease] = []
        for lease in [*self._ready]:
            if len(taken) == count:
                break
            if self.is_ordered and lease.lane is not None:
                if lease.lane in self._lanes:
                    continue
                self._lanes[lease.lane] = lease
            self._ready.remove(lease)
            lease.state = LeaseState.HELD
            taken.append(lease)
        return taken

    def begin(self, lease: Lease) -> None:
        """Its acknowledgement is in flight."""
        assert lease.state in (LeaseState.READY, LeaseState.HELD)
        if lease.state is LeaseState.READY:
            self._ready.remove(lease)
        lease.state = LeaseState.IN_FLIGHT

    def behind(self, lease: Lease) -> list[Lease]:
        """Ready messages of its key, which would overtake it if it is released."""
        if not self.is_ordered or lease.lane is None:
            return []
        return [each for each in self._ready if each.lane == lease.lane]

    def hold_again(self, lease: Lease) -> None:
        """It could not be acknowledged, and the client may try again."""
        assert lease.state is LeaseState.IN_FLIGHT
        lease.state = LeaseState.HELD

    def end(self, lease: Lease, how: AcknowledgeType | None) -> None:
        """`how` is what the client did, and the broker took; None if it is delivered again."""
        if lease.state is LeaseState.READY:
            self._ready.remove(lease)
        if lease.lane is not None and self._lanes.get(lease.lane) is lease:
            del self._lanes[lease.lane]
        lease.state = LeaseState.DONE
        if self._open.pop(lease.number, None) is not None:
            self._of[lease.consumer].discard(lease)
            if not self._of[lease.consumer]:
                del self._of[lease.consumer]
            self._done[lease.number] = how
            if len(self._done) > DONE_MAX:
                self._done.popitem(last=False)
