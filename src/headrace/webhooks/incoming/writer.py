"""The intake of webhooks: what became of an event, and what an earlier run has left on disk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from headrace.clock import Clock
from headrace.edges.event import Event, Fate, Reason
from headrace.edges.overload import Intake, Overloaded
from headrace.edges.settings import EdgeSettings
from headrace.kafka.cluster import Cluster
from headrace.webhooks.incoming.history import Accepted, accepted_source, keys_of_any_kind

NAME = "webhooks"
"""Of the buffer on disk."""


class Result(StrEnum):
    DELIVERED = "delivered"
    BUFFERED = "buffered"
    NO_ROOM = "no room"
    STOPPED = "stopped"
    REJECTED = "rejected"


class Written(Struct, frozen=True, kw_only=True):
    result: Result
    why: str = ""
    """the broker rejects the event"""

    @property
    def is_kept(self) -> bool:
        return self.result in (Result.DELIVERED, Result.BUFFERED)


_RESULTS = {Fate.DELIVERED: Result.DELIVERED, Fate.BUFFERED: Result.BUFFERED}
_DROPPED = {Reason.NEWEST: Result.NO_ROOM, Reason.OLDEST: Result.NO_ROOM, Reason.STOPPED: Result.STOPPED}


class EventWriter:
    """Opened with the first event, or if an earlier run has left some: a process without webhooks has no intake."""

    def __init__(
        self, cluster: Cluster, edge: EdgeSettings, *, clock: Clock, on_problem: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._edge = edge
        self._clock = clock
        self._on_problem = on_problem
        self._intake: Intake | None = None
        self._left: dict[str, list[Accepted]] = defaultdict(list)
        self.is_buffered = edge.overload == "buffer"
        if self.is_buffered and (edge.data_dir / "edges" / NAME).exists():
            self.open()

    def open(self) -> Intake:
        if self._intake is None:
            self._intake = Intake(
                self._cluster.client_config(),
                self._edge,
                name=NAME,
                clock=self._clock,
                on_problem=self._on_problem,
                on_left=self._add_left,
                marks_drops=False,
            )
        return self._intake

    def _add_left(self, event: Event) -> None:
        name = accepted_source(event.headers)
        if name:
            self._left[name].append(Accepted(event.timestamp_ms, keys_of_any_kind(event)))

    def take_left(self, source: str) -> list[Accepted]:
        """What an earlier run has accepted for a source, and may not be in its topic yet."""
        return self._left.pop(source, [])

    async def write(self, event: Event) -> Written:
        try:
            (sent,) = await self.open().send([event])
        except Overloaded:
            return Written(result=Result.NO_ROOM)
        if sent.fate in _RESULTS:
            return Written(result=_RESULTS[sent.fate])
        for reason, result in _DROPPED.items():
            if sent.why == reason:
                return Written(result=result)
        return Written(result=Result.REJECTED, why=sent.why)

    def close(self) -> None:
        """Blocking: deliver what was taken, for as long as the settings say."""
        if self._intake is not None:
            self._intake.close()
