"""The event store: append with an expected version, handle commands, and read states, now and in the past."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from msgspec import Struct

from headrace.clock import Clock, SystemClock
from headrace.events.aggregate import Aggregate, Loaded, check_aggregate_id
from headrace.events.codec import Codec
from headrace.events.decisions import Command, Decisions, Handled, Transaction
from headrace.events.errors import CommandRejected, EventsError
from headrace.events.followed_log import LogSetup
from headrace.events.partition import Partition
from headrace.events.partitioner import partition_of
from headrace.events.records import Rejection, StoredEvent, Topics
from headrace.events.topics import message_bytes_max, prepare_event_topics
from headrace.kafka.cluster import BROKERS_DEFAULT, Cluster
from headrace.kafka.settings import client_settings
from headrace.topic_names import check_topic_name

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")

TIMEOUT_S = 30.0
"""How long a broker may be unavailable, such as during a restart, before a call fails."""


class RecordedEvent(Struct, Generic[E], frozen=True, kw_only=True):
    """An event of an aggregate, and where it is in the log."""

    event: E
    aggregate_id: str
    version: int
    type: str
    id: str
    timestamp_ms: int
    correlation_id: str
    causation_id: str
    partition: int
    offset: int


class HandledCommand(Struct, Generic[E], frozen=True, kw_only=True):
    """The outcome of a command that was accepted. `version` is that of the aggregate after it.

    `is_repeated`: a command with this id was handled before, and this is the outcome of that time.
    """

    aggregate_id: str
    command_id: str
    version: int
    events: tuple[E, ...]
    is_repeated: bool


class EventStore(Generic[S, C, E]):
    """The events of one kind of aggregate, in one topic. Threads may share it.

    The topic is created with `partitions` if it does not exist. `snapshot_every` writes a snapshot whenever an
    aggregate has that many further events. With `takeover=False` a process that another one has fenced does not fence
    it in return, but raises WriterFenced; `close` and a new store take the partition back.
    """

    def __init__(
        self,
        topic: str,
        aggregate: Aggregate[S, C, E],
        *,
        bootstrap: str | None = None,
        config: Mapping[str, Any] | None = None,
        partitions: int = BROKERS_DEFAULT,
        snapshot_every: int | None = None,
        takeover: bool = True,
        timeout_s: float = TIMEOUT_S,
        clock: Clock | None = None,
    ) -> None:
        check_topic_name(topic)
        if snapshot_every is not None and snapshot_every < 1:
            raise EventsError(f"snapshot_every is {snapshot_every}", hint="use a number of events, from 1")
        self.topics = Topics.of(topic)
        self.aggregate = aggregate
        self.clock = clock or SystemClock()
        self.events_codec = Codec("event", aggregate.events)
        self.commands_codec = Codec("command", aggregate.commands)
        address = bootstrap or (config or {}).get("bootstrap.servers") or client_settings(None).bootstrap
        self.cluster = Cluster(address, timeout_s=timeout_s, config=config)
        self.partitions = prepare_event_topics(self.cluster, self.topics, partitions)
        self.setup = LogSetup(
            cluster=self.cluster,
            topics=(self.topics.events, self.topics.rejected, self.topics.snapshots),
            message_bytes_max=message_bytes_max(self.cluster, topic),
            timeout_s=timeout_s,
        )
        self._snapshot_every = snapshot_every
        self._takeover = takeover
        self._lock = threading.Lock()
        self._opened: dict[int, tuple[Partition, Decisions[S, C, E]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Everything that a call returned for is durable already."""
        with self._lock:
            opened, self._opened = self._opened, {}
        for partition, _ in opened.values():
            partition.close()

    # Writing

    def append(
        self,
        aggregate_id: str,
        events: Sequence[E],
        *,
        expected_version: int,
        correlation_id: str = "",
        causation_id: str = "",
    ) -> list[RecordedEvent[E]]:
        """Append events to an aggregate that has `expected_version` events (0: none); all of them, or none.

        VersionConflict if it has more or fewer: of several writers that expect the same version, one wins.
        """
        partition, decisions = self._of(aggregate_id)

        def work(transaction: Transaction[S, C, E]) -> list[StoredEvent]:
            return transaction.append(
                aggregate_id,
                events,
                expected_version=expected_version,
                correlation_id=correlation_id,
                causation_id=causation_id,
            )

        with partition.lock:
            stored = decisions.transact(work, takeover=self._takeover)
            after = partition.index.events(aggregate_id, after=expected_version)
            offsets = {each.id: each.offset for each in after}
        return [self._recorded(partition.number, each, offsets.get(each.id)) for each in stored]

    def handle(
        self,
        aggregate_id: str,
        command: C,
        *,
        command_id: str | None = None,
        correlation_id: str = "",
        expected_version: int | None = None,
    ) -> HandledCommand[E]:
        """Load the aggregate, decide the command and append its events.

        If another process writes to the aggregate in between, the command is decided again from the new state; with an
        `expected_version`, VersionConflict is raised instead. A command that `decide` rejects is kept in the topic
        `NAME.rejected`, and CommandRejected is raised. A command id is handled once: the same outcome is returned, or
        raised, for each repetition.
        """
        _, decisions = self._of(aggregate_id)
        name, data = self.commands_codec.encode(command)
        envelope = Command(
            aggregate_id=aggregate_id,
            id=command_id or uuid.uuid4().hex,
            type=name,
            data=data,
            correlation_id=correlation_id,
            expected_version=expected_version,
        )

        def work(transaction: Transaction[S, C, E]) -> Handled | tuple[Handled, CommandRejected]:
            try:
                return transaction.handle(envelope)
            except CommandRejected as rejected:
                rejection = transaction.reject(envelope, rejected)
                outcome = Handled(
                    aggregate_id=aggregate_id, command_id=envelope.id, version=0, rejection=rejection
                )
                return outcome, rejected

        found = decisions.transact(work, takeover=self._takeover)
        if isinstance(found, tuple):
            raise found[1]
        if found.rejection is not None:
            raise CommandRejected(found.rejection.reason)
        return HandledCommand(
            aggregate_id=aggregate_id,
            command_id=envelope.id,
            version=found.version,
            events=tuple(self.events_codec.decode(each.type, each.data) for each in found.events),
            is_repeated=found.is_repeated,
        )

    def open(self, partitions: Iterable[int] | None = None) -> None:
        """Become the writer of these partitions now (None: of all), instead of with the first append to each."""
        for number in range(self.partitions) if partitions is None else partitions:
            self.part(number)[0].own()

    # Reading

    def load(self, aggregate_id: str) -> Loaded[S]:
        """The current state; the initial one, with version 0, if the aggregate has no events."""
        partition, decisions = self._of(aggregate_id)
        with partition.lock:
            partition.refresh()
            loaded = decisions.states.current(aggregate_id, {})
            decisions.states.keep(aggregate_id, loaded)
            return loaded

    def state_at(
        self,
        aggregate_id: str,
        *,
        version: int | None = None,
        timestamp_ms: int | None = None,
        offset: int | None = None,
    ) -> Loaded[S]:
        """The state after a version, at a time, or up to an offset of the partition, all of them inclusive."""
        if sum(each is not None for each in (version, timestamp_ms, offset)) != 1:
            raise EventsError(
                "state_at needs one point in the past", hint="give version, timestamp_ms or offset"
            )
        partition, decisions = self._of(aggregate_id)
        with partition.lock:
            partition.refresh()
            if timestamp_ms is not None:
                version = partition.index.version_at_time(aggregate_id, timestamp_ms)
            elif offset is not None:
                version = partition.index.version_at_offset(aggregate_id, offset)
            assert version is not None
            current = partition.index.version(aggregate_id)
            if not 0 <= version <= current:
                raise EventsError(
                    f"{aggregate_id} has no version {version}", hint=f"its versions are 0 to {current}"
                )
            return decisions.states.at_version(aggregate_id, version)

    def events(self, aggregate_id: str, *, after: int = 0) -> list[RecordedEvent[E]]:
        """The events of an aggregate after a version, in order."""
        partition, _ = self._of(aggregate_id)
        with partition.lock:
            partition.refresh()
            stored = list(partition.index.events(aggregate_id, after=after))
        return [self._recorded(partition.number, each) for each in stored]

    def rejected(self, aggregate_id: str | None = None) -> list[Rejection]:
        """The commands that were rejected, of an aggregate or of all, in the order of their time."""
        parts = map(self.part, range(self.partitions)) if aggregate_id is None else [self._of(aggregate_id)]
        found: list[Rejection] = []
        for partition, _ in parts:
            with partition.lock:
                partition.refresh()
                found += partition.index.rejections(aggregate_id)
        return sorted(found, key=lambda each: each.timestamp_ms)

    def aggregate_ids(self) -> list[str]:
        """The ids of all aggregates."""
        found: list[str] = []
        for number in range(self.partitions):
            partition, _ = self.part(number)
            with partition.lock:
                partition.refresh()
                found += partition.index.aggregate_ids()
        return sorted(found)

    # Partitions, for workers

    def part(self, number: int) -> tuple[Partition, Decisions[S, C, E]]:
        """A partition, and the decisions in it."""
        with self._lock:
            if number not in self._opened:
                partition = Partition(self.setup, self.topics, number=number, partitions=self.partitions)
                decisions = Decisions(
                    self.aggregate,
                    partition,
                    topic=self.topics.events,
                    message_bytes_max=self.setup.message_bytes_max,
                    snapshot_every=self._snapshot_every,
                    clock=self.clock,
                )
                self._opened[number] = (partition, decisions)
            return self._opened[number]

    def _of(self, aggregate_id: str) -> tuple[Partition, Decisions[S, C, E]]:
        return self.part(partition_of(check_aggregate_id(aggregate_id), self.partitions))

    def _recorded(self, partition: int, stored: StoredEvent, offset: int | None = None) -> RecordedEvent[E]:
        return RecordedEvent(
            event=self.events_codec.decode(stored.type, stored.data),
            aggregate_id=stored.aggregate_id,
            version=stored.version,
            type=stored.type,
            id=stored.id,
            timestamp_ms=stored.timestamp_ms,
            correlation_id=stored.correlation_id,
            causation_id=stored.causation_id,
            partition=partition,
            offset=stored.offset if offset is None else offset,
        )
