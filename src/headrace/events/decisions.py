"""From a command to the records of a transaction: load, decide, and draft the events or the rejection.

The store runs it for one command, a worker for a batch of them, both within `Partition.transact`.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from headrace.clock import Clock
from headrace.events.aggregate import Aggregate, Loaded, fold
from headrace.events.codec import Codec
from headrace.events.errors import CommandRejected, EventsError, InvalidEvent, VersionConflict
from headrace.events.partition import EventDraft, Partition
from headrace.events.records import (
    Rejection,
    Snapshot,
    StoredEvent,
    check_size,
    event_record,
    rejection_record,
    snapshot_record,
)
from headrace.events.states import States

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")
T = TypeVar("T")

EVENTS_MAX = 10_000
"""Events of one append or decision. More are an import, which is several appends."""

REASON_CHARACTERS_MAX = 2_000
"""Of a rejection. A reason is a header, which readers load with every record."""

logger = logging.getLogger("headrace.events")


class Command(Struct, frozen=True, kw_only=True):
    """A command on its way to an aggregate. `expected_version` None: any."""

    aggregate_id: str
    id: str
    type: str
    data: bytes
    correlation_id: str = ""
    expected_version: int | None = None


class Handled(Struct, frozen=True, kw_only=True):
    """The outcome of a command. `version` is that of the aggregate after it, and its events are the last of it.

    `is_repeated`: the command was handled before, and this is the outcome of that time.
    """

    aggregate_id: str
    command_id: str
    version: int
    events: tuple[StoredEvent, ...] = ()
    rejection: Rejection | None = None
    is_repeated: bool = False


class Decisions(Generic[S, C, E]):
    """The decisions of one partition."""

    def __init__(
        self,
        aggregate: Aggregate[S, C, E],
        partition: Partition,
        *,
        topic: str,
        message_bytes_max: int,
        snapshot_every: int | None,
        clock: Clock,
    ) -> None:
        self.aggregate = aggregate
        self.topic = topic
        self._partition = partition
        self.index = partition.index
        self.message_bytes_max = message_bytes_max
        self.snapshot_every = snapshot_every
        self.clock = clock
        self.commands = Codec("command", aggregate.commands)
        self.events = Codec("event", aggregate.events)
        self.states: States[S] = States(aggregate, self.events, partition.index)

    def transact(self, work: Callable[[Transaction[S, C, E]], T], **options: Any) -> T:
        """`Partition.transact`, with the states of the transaction."""
        newest: dict[str, Loaded[S]] = {}

        def run(draft: EventDraft) -> T:
            newest.clear()
            return work(Transaction(self, draft, newest))

        with self._partition.lock:
            result = self._partition.transact(run, **options)
            for aggregate_id, loaded in newest.items():
                self.states.keep(aggregate_id, loaded)
            return result

    def stored(
        self, aggregate_id: str, version: int, events: Sequence[E], correlation_id: str, causation_id: str
    ) -> list[StoredEvent]:
        if len(events) > EVENTS_MAX:
            raise InvalidEvent(
                f"{len(events):,} events for {aggregate_id}", hint=f"append at most {EVENTS_MAX:,} at a time"
            )
        # Never before the event that it follows, so that the state at a time is a prefix of the history.
        timestamp_ms = max(self.clock.now_ms(), self.index.timestamp_ms(aggregate_id))
        found = []
        for number, event in enumerate(events, start=version + 1):
            name, data = self.events.encode(event)
            stored = StoredEvent(
                aggregate_id=aggregate_id,
                version=number,
                type=name,
                id=uuid.uuid4().hex,
                timestamp_ms=timestamp_ms,
                data=data,
                correlation_id=correlation_id,
                causation_id=causation_id,
            )
            check_size(event_record(self.topic, stored), self.message_bytes_max)
            found.append(stored)
        return found


class Transaction(Generic[S, C, E]):
    """What a piece of work may do within one transaction."""

    def __init__(
        self, decisions: Decisions[S, C, E], draft: EventDraft, newest: dict[str, Loaded[S]]
    ) -> None:
        self._decisions = decisions
        self._newest = newest
        self.draft = draft

    def append(
        self,
        aggregate_id: str,
        events: Sequence[E],
        *,
        expected_version: int | None,
        correlation_id: str = "",
        causation_id: str = "",
    ) -> list[StoredEvent]:
        version = self._decisions.index.version(aggregate_id)
        if expected_version is not None and expected_version != version:
            raise _conflict(aggregate_id, expected_version, version)
        stored = self._decisions.stored(aggregate_id, version, events, correlation_id, causation_id)
        for event in stored:
            self.draft.add_event(event)
        self._snapshot_if_due(aggregate_id, version, version + len(stored))
        return stored

    def handle(self, command: Command) -> Handled:
        """Decide the command, unless it was decided before. One that failed with an error is decided again."""
        known = self._decisions.index.outcome(command.aggregate_id, command.id)
        if known is not None and not (known.rejection is not None and known.rejection.is_error):
            events = self._decisions.index.events(
                command.aggregate_id, after=known.first - 1, until=known.last
            )
            return Handled(
                aggregate_id=command.aggregate_id,
                command_id=command.id,
                version=known.last or self._decisions.index.version(command.aggregate_id),
                events=() if known.rejection else tuple(events),
                rejection=known.rejection,
                is_repeated=True,
            )
        return self._decide(command)

    def _decide(self, command: Command) -> Handled:
        loaded = self._decisions.states.current(command.aggregate_id, self._newest)
        if command.expected_version not in (None, loaded.version):
            raise _conflict(command.aggregate_id, command.expected_version or 0, loaded.version)
        decoded = self._decisions.commands.decode(command.type, command.data)
        aggregate = self._decisions.aggregate
        events = list(aggregate.decide(loaded.state, decoded))
        # Before anything is drafted: an event that `evolve` does not take would block the aggregate.
        after = fold(aggregate, loaded, events)
        stored = self.append(
            command.aggregate_id,
            events,
            expected_version=loaded.version,
            correlation_id=command.correlation_id or command.id,
            causation_id=command.id,
        )
        self._newest[command.aggregate_id] = after
        return Handled(
            aggregate_id=command.aggregate_id,
            command_id=command.id,
            version=after.version,
            events=tuple(stored),
        )

    def reject(self, command: Command, reason: EventsError | Exception) -> Rejection:
        """Keep a command that was rejected, or that could not be decided."""
        is_error = not isinstance(reason, CommandRejected | VersionConflict)
        text = str(reason) if isinstance(reason, EventsError) else f"{type(reason).__name__}: {reason}"
        rejection = Rejection(
            aggregate_id=command.aggregate_id,
            command_id=command.id,
            type=command.type,
            reason=text[:REASON_CHARACTERS_MAX],
            timestamp_ms=self._decisions.clock.now_ms(),
            data=command.data,
            correlation_id=command.correlation_id or command.id,
            is_error=is_error,
        )
        try:
            check_size(rejection_record("", rejection), self._decisions.message_bytes_max)
        except InvalidEvent:
            # The reason is worth more than the command, which its sender has.
            rejection = msgspec.structs.replace(rejection, data=b"")
        self.draft.add_rejection(rejection)
        return rejection

    def _snapshot_if_due(self, aggregate_id: str, before: int, after: int) -> None:
        every = self._decisions.snapshot_every
        if every is None or before // every == after // every:
            return
        decisions = self._decisions
        now_ms = decisions.clock.now_ms()
        try:
            loaded = decisions.states.current(aggregate_id, self._newest)
            snapshot = Snapshot(
                aggregate_id=aggregate_id,
                version=loaded.version,
                state_version=decisions.aggregate.state_version,
                data=msgspec.json.encode(loaded.state),
            )
            check_size(snapshot_record(decisions.topic, snapshot, now_ms), decisions.message_bytes_max)
        except (EventsError, TypeError, ValueError) as error:
            # The events are drafted, and need no snapshot.
            logger.warning("%s gets no snapshot: %s", aggregate_id, error)
            return
        self.draft.add_snapshot(snapshot, now_ms)


def _conflict(aggregate_id: str, expected: int, version: int) -> VersionConflict:
    return VersionConflict(
        f"{aggregate_id} is at version {version}, not at the expected version {expected}",
        hint="load it, and decide from its current state",
        version=version,
    )
