"""The current states of aggregates: a bounded cache over snapshots and replay.

A state in the cache is that of committed events. What a transaction computes is kept beside it, and enters the cache
only when the transaction is committed.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any, Generic, TypeVar

from headrace.errors import HeadraceError
from headrace.events.aggregate import Aggregate, Loaded, fold
from headrace.events.codec import Codec, decode_state
from headrace.events.errors import EventsError
from headrace.events.index import Index

S = TypeVar("S")

STATES_MAX = 10_000
"""Per partition. A state that is not in the cache costs a replay of the aggregate, or of what follows its snapshot."""

logger = logging.getLogger("headrace.events")


class States(Generic[S]):
    def __init__(
        self, aggregate: Aggregate[S, Any, Any], events: Codec, index: Index, *, states_max: int = STATES_MAX
    ) -> None:
        self._aggregate = aggregate
        self._events = events
        self._index = index
        self._states_max = states_max
        self._committed: OrderedDict[str, Loaded[S]] = OrderedDict()

    def current(self, aggregate_id: str, newer: dict[str, Loaded[S]]) -> Loaded[S]:
        """The state of all events in the index; `newer` has the states of the running transaction."""
        start = newer.get(aggregate_id) or self._committed.get(aggregate_id) or self._snapshot(aggregate_id)
        return self._replay(aggregate_id, start, until=None)

    def at_version(self, aggregate_id: str, version: int) -> Loaded[S]:
        """The state that the first `version` events led to."""
        snapshot = self._snapshot(aggregate_id)
        start = snapshot if snapshot.version <= version else self._initial()
        return self._replay(aggregate_id, start, until=version)

    def keep(self, aggregate_id: str, loaded: Loaded[S]) -> None:
        """Add the state of committed events; the one that was not used for longest leaves."""
        self._committed[aggregate_id] = loaded
        self._committed.move_to_end(aggregate_id)
        while len(self._committed) > self._states_max:
            self._committed.popitem(last=False)

    def _initial(self) -> Loaded[S]:
        return Loaded(state=self._aggregate.initial, version=0)

    def _snapshot(self, aggregate_id: str) -> Loaded[S]:
        """The last usable snapshot, or the initial state: a snapshot only saves time."""
        snapshot = self._index.snapshot(aggregate_id)
        if snapshot is None or snapshot.state_version != self._aggregate.state_version:
            return self._initial()
        try:
            state = decode_state(state_type(self._aggregate), snapshot.data)
        except HeadraceError as error:
            logger.warning("the snapshot of %s is ignored: %s", aggregate_id, error)
            return self._initial()
        return Loaded(state=state, version=snapshot.version)

    def _replay(self, aggregate_id: str, start: Loaded[S], *, until: int | None) -> Loaded[S]:
        stored = self._index.events(aggregate_id, after=start.version, until=until)
        try:
            return fold(
                self._aggregate, start, (self._events.decode(event.type, event.data) for event in stored)
            )
        except EventsError as error:
            error.message = f"the events of {aggregate_id} can't be replayed: {error.message}"
            raise


def state_type(aggregate: Aggregate[Any, Any, Any]) -> Any:
    return type(aggregate.initial) if aggregate.state is None else aggregate.state
