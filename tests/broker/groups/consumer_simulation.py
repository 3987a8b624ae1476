"""Clients of the newer protocol, of the classic one and their broker, without wires: for walks at random.

A client keeps what it was given until it has said that it gave it up, as real ones do. Answers get lost, the disk
refuses, the broker starts again from its records: none of that may ever give a partition to two at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec import Struct

from headrace.broker.groups import consumer, consumer_classic
from headrace.broker.groups.assignors import Place
from headrace.broker.groups.consumer import ConsumerHeartbeat
from headrace.broker.groups.consumer_embedded import (
    EmbeddedPartitions,
    EmbeddedSubscription,
    read_assignment,
    write_subscription,
)
from headrace.broker.groups.consumer_state import ConsumerGroup
from headrace.broker.groups.consumer_step import ConsumerStep, ConsumerTimer
from headrace.broker.groups.consumer_storage import ReadConsumerGroups, facts
from headrace.broker.groups.events import Heartbeat, Join, Leave, LeavingMember, Sync
from headrace.broker.groups.state import MemberProtocol
from headrace.broker.refusals import RequestRefused
from headrace.protocol import stored
from headrace.protocol.error_codes import ErrorCode

AnswerT = TypeVar("AnswerT")


class SomeTopic(Struct, frozen=True, kw_only=True):
    name: str
    id: uuid.UUID
    partition_count: int


class SomeTopics:
    def __init__(self, **counts: int) -> None:
        self.version = 0
        self._by_name: dict[str, SomeTopic] = {}
        for name, count in counts.items():
            self.put(name, count)

    def put(self, name: str, partition_count: int) -> SomeTopic:
        known = self._by_name.get(name)
        made = SomeTopic(
            name=name,
            id=known.id if known else uuid.uuid5(uuid.NAMESPACE_OID, f"{name}{self.version}"),
            partition_count=partition_count,
        )
        self._by_name[name] = made
        self.version += 1
        return made

    def remove(self, name: str) -> None:
        del self._by_name[name]
        self.version += 1

    def find(self, name: str) -> SomeTopic | None:
        return self._by_name.get(name)

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        return next((topic.name for topic in self._by_name.values() if topic.id == topic_id), None)

    def names(self) -> Iterable[str]:
        return self._by_name.keys()

    def places(self, names: Iterable[str]) -> set[Place]:
        return {
            Place(topic.id, partition)
            for name in names
            if (topic := self._by_name.get(name)) is not None
            for partition in range(topic.partition_count)
        }


class Coordinator:
    """The rules, and a log of what they had stored."""

    def __init__(self, topics: SomeTopics, **limits: Any) -> None:
        """`limits` are those of `ConsumerStep`, where a test wants others."""
        self.topics = topics
        self._limits = limits
        self.group = ConsumerGroup("g")
        self.now_ms = 1_000_000
        self.is_disk_full = False
        self.records: list[tuple[bytes, bytes | None]] = []

    def run(self, act: Callable[[ConsumerStep], AnswerT]) -> AnswerT:
        step = ConsumerStep(
            group=self.group,
            catalog=self.topics,
            now_ms=self.now_ms,
            session_timeout_ms=45_000,
            members_max=1_000_000,
            **self._limits,
        )
        try:
            answer = act(step)
        except RequestRefused:
            step.undo()
            raise
        if self.is_disk_full and step.changes:
            step.undo()
            raise RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "full")
        for key, fact in facts("g", step.changes):
            encoded = None if fact is None else stored.encode_value(fact)
            self.records.append((stored.encode_key(key), encoded))
        return answer

    def restart(self) -> None:
        """Nothing is left but what the records say."""
        read = ReadConsumerGroups()
        for key, data in self.records:
            read.put(stored.decode_key(key), data)
        self.group = read.groups().get("g", ConsumerGroup("g"))

    def time_out(self, kind: ConsumerTimer, member_id: str) -> bool:
        return self.run(lambda step: consumer.timer_due(step, kind, member_id))


def by_topic(places: Iterable[Place]) -> dict[uuid.UUID, frozenset[int]]:
    found: dict[uuid.UUID, set[int]] = {}
    for topic_id, partition in places:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}


@dataclass(slots=True, kw_only=True)
class Client:
    """A member of the newer protocol. `owned` is what it reads from at this moment."""

    coordinator: Coordinator
    member_id: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignor: str | None = None
    instance_id: str | None = None
    epoch: int = 0
    owned: set[Place] = field(default_factory=set)
    told: set[Place] = field(default_factory=set)
    says_all: bool = True

    def beat(self, *, is_answer_lost: bool = False) -> ErrorCode:
        is_full = self.says_all or self.epoch == 0
        heartbeat = ConsumerHeartbeat(
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000 if is_full else -1,
            topics=self.topics if is_full else None,
            pattern=self.pattern if is_full else None,
            assignor=self.assignor if is_full else None,
            reported=by_topic(self.owned) if is_full or self.owned == self.told else None,
        )
        consumer.check_heartbeat(heartbeat)
        try:
            answer = self.coordinator.run(lambda step: consumer.heartbeat(step, heartbeat))
        except RequestRefused as refused:
            self.says_all = True
            if refused.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.forget()
            return refused.code
        if is_answer_lost:
            self.says_all = True
            return ErrorCode.NONE
        self.says_all = False
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.told = {
                Place(topic_id, partition)
                for topic_id, partitions in answer.assignment.items()
                for partition in partitions
            }
            if self.owned <= self.told:
                self.owned = {*self.told}  # nothing to give up: the new ones may be read at once
        return ErrorCode.NONE

    def let_go(self) -> None:
        """Finish the work on what has to be given up, and begin with what is new."""
        self.owned = {*self.told}

    def forget(self) -> None:
        self.epoch, self.owned, self.told = 0, set(), set()

    def leave(self, epoch: int = -1) -> None:
        self.owned = set()
        leaving = ConsumerHeartbeat(
            member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        self.coordinator.run(lambda step: consumer.leave(step, leaving))
        self.forget()


@dataclass(slots=True, kw_only=True)
class ClassicClient:
    """A member of the classic protocol, which gives up everything in a rebalance or only what moves."""

    coordinator: Coordinator
    member_id: str
    topics: tuple[str, ...]
    is_eager: bool
    epoch: int = -1
    owned: set[Place] = field(default_factory=set)

    def rejoin(self) -> None:
        if self.is_eager:
            self.owned = set()
        subscription = EmbeddedSubscription(
            topics=self.topics,
            owned_partitions=tuple(
                EmbeddedPartitions(topic=name, partitions=tuple(partitions))
                for topic_id, partitions in by_topic(self.owned).items()
                if (name := self.coordinator.topics.name_of(topic_id)) is not None
            ),
        )
        offer = MemberProtocol(name="some", metadata=write_subscription(subscription, 1))
        join = Join(
            member_id=self.member_id,
            instance_id=None,
            client_id="c",
            client_host="/h",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            protocol_type="consumer",
            protocols=(offer,),
            needs_known_id=True,
            can_skip_assignment=True,
        )
        try:
            joined = self.coordinator.run(lambda step: consumer_classic.join(step, join))
            self.epoch = joined.generation
            self._sync()
        except RequestRefused:
            self.forget()

    def _sync(self) -> None:
        sync = Sync(
            member_id=self.member_id,
            instance_id=None,
            generation=self.epoch,
            protocol_type="consumer",
            protocol_name="some",
            assignments={},
        )
        synced = self.coordinator.run(lambda step: consumer_classic.sync(step, sync))
        if synced.error is ErrorCode.NONE:
            self.owned = {
                Place(topic.id, partition)
                for one in read_assignment(synced.assignment).assigned_partitions
                if (topic := self.coordinator.topics.find(one.topic)) is not None
                for partition in one.partitions
            }

    def beat(self) -> ErrorCode:
        heartbeat = Heartbeat(member_id=self.member_id, instance_id=None, generation=self.epoch)
        try:
            answer = self.coordinator.run(lambda step: consumer_classic.heartbeat(step, heartbeat))
        except RequestRefused as refused:
            self.forget()
            self.rejoin()
            return refused.code
        if answer.error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin()
        return answer.error

    def forget(self) -> None:
        self.epoch, self.owned = -1, set()

    def leave(self) -> None:
        self.owned = set()
        leaving = Leave(members=(LeavingMember(member_id=self.member_id, instance_id=None),))
        self.coordinator.run(lambda step: consumer_classic.leave(step, leaving))
        self.forget()
