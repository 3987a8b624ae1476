"""An aggregate: two pure functions and an initial state, and the fold of events into a state.

Nothing here knows a topic. The store calls `decide` with the current state, and appends the events that it returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from headrace.events.errors import InvalidEvent

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")

AGGREGATE_ID_BYTES_MAX = 1024
"""An id is the key of every event of its aggregate. A longer one is probably a document by mistake."""


class Aggregate(Generic[S, C, E]):
    """A kind of aggregate: subclass it, and give the store an instance.

    `initial` is the state before the first event. `events` and `commands` are the types that the functions take, as a
    union of msgspec Structs; the default is `dict`, with the name of the type under the key `type`.

    A snapshot is a state as JSON; `state` is its type, by default that of `initial`. `state_version` is stored with
    it: raise it when `evolve` or the fields of the state change, so that older snapshots are ignored.
    """

    initial: S
    events: Any = dict
    commands: Any = dict
    state: Any = None
    state_version: int = 1

    def decide(self, state: S, command: C) -> Sequence[E]:
        """The events that the command causes; raise CommandRejected if the command is not allowed in this state."""
        raise NotImplementedError

    def evolve(self, state: S, event: E) -> S:
        """The state after the event. An event is a fact: `evolve` does not reject it."""
        raise NotImplementedError


class Loaded(Struct, Generic[S], frozen=True, kw_only=True):
    """The state of an aggregate, and the number of events that led to it."""

    state: S
    version: int


def fold(aggregate: Aggregate[S, Any, E], start: Loaded[S], events: Iterable[E]) -> Loaded[S]:
    """The state after further events."""
    state, version = start.state, start.version
    for event in events:
        state = aggregate.evolve(state, event)
        version += 1
    return Loaded(state=state, version=version)


def check_aggregate_id(aggregate_id: str) -> bytes:
    """The key of its events; InvalidEvent if it can't be one."""
    is_text: object = isinstance(aggregate_id, str)  # a caller without types may give anything
    if not is_text or not aggregate_id:
        raise InvalidEvent(
            f"{aggregate_id!r} can't be the id of an aggregate", hint="use a text that is not empty"
        )
    try:
        key = aggregate_id.encode()
    except UnicodeEncodeError as error:
        raise InvalidEvent(
            f"the aggregate id {aggregate_id!r} is not valid Unicode", hint="remove the lone surrogates"
        ) from error
    if len(key) > AGGREGATE_ID_BYTES_MAX:
        raise InvalidEvent(
            f"the aggregate id {aggregate_id[:40]!r}… has {len(key):,} bytes",
            hint=f"at most {AGGREGATE_ID_BYTES_MAX:,}",
        )
    return key
