"""Clients of the newer protocol, of the classic one and their broker, without connections: for random walks.

A client reads its partitions until it has reported their revocation, as real ones do. Responses are lost, the disk is
full, the broker restarts from its records: no partition may ever have two readers.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec import Struct

from headrace.broker.groups import consumer, consumer_classic
from headrace.broker.groups.assignors import TopicIdPartition
from headrace.broker.groups.consumer import ConsumerHeartbeat
from headrace.broker.groups.consumer_embedded import (
    EmbeddedPartitions,
    EmbeddedSubscription,
    read_assignment,
    write_subscription,
)
from headrace.broker.groups.consumer_state import ConsumerGroup
from headrace.broker.groups.consumer_step import ConsumerStep
from headrace.broker.groups.consumer_storage import ReadConsumerGroups, facts
from headrace.broker.groups.events import Join, TimerKind
from headrace.broker.groups.state import MemberProtocol
from headrace.broker.rejections import RequestRejected
from headrace.protocol import stored
from headrace.protocol import stored_consumer_groups as formats
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.broker.groups.simulation import sync_request

ResultT = TypeVar("ResultT")


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

    def __iter__(self) -> Iterator[SomeTopic]:
        return iter(self._by_name.values())

    def get(self, name: str) -> SomeTopic | None:
        return self._by_name.get(name)

    def get_by_id(self, topic_id: uuid.UUID) -> SomeTopic | None:
        return next((topic for topic in self if topic.id == topic_id), None)

    def places(self, names: Iterable[str]) -> set[TopicIdPartition]:
        return {
            TopicIdPartition(topic.id, partition)
            for name in names
            if (topic := self._by_name.get(name)) is not None
            for partition in range(topic.partition_count)
        }


class Coordinator:
    """The rules, and a log of the records that they store."""

    def __init__(self, topics: SomeTopics, **limits: Any) -> None:
        """`limits` are those of `ConsumerStep`, where a test wants others."""
        self.topics = topics
        self._limits = limits
        self.group = ConsumerGroup("g")
        self.now_ms = 1_000_000
        self.is_disk_full = False
        self.records: list[tuple[formats.Key, bytes | None]] = []

    def run(self, act: Callable[[ConsumerStep], ResultT]) -> ResultT:
        step = ConsumerStep(
            group=self.group,
            catalog=self.topics,
            now_ms=self.now_ms,
            session_timeout_ms=45_000,
            members_max=1_000_000,
            **self._limits,
        )
        try:
            response = act(step)
        except RequestRejected:
            step.undo()
            raise
        if self.is_disk_full and step.changes:
            step.undo()
            raise RequestRejected(ErrorCode.COORDINATOR_NOT_AVAILABLE, "full")
        for key, fact in facts("g", step.changes):
            encoded = None if fact is None else stored.encode_value(fact)
            self.records.append((key, encoded))
        return response

    def restart(self) -> None:
        """Only the records survive."""
        read = ReadConsumerGroups()
        for key, data in self.records:
            read.put(key, data)
        self.group = read.groups().get("g", ConsumerGroup("g"))

    def time_out(self, kind: TimerKind, member_id: str) -> bool:
        return self.run(lambda step: consumer.timer_due(step, kind, member_id))


def by_topic(places: Iterable[TopicIdPartition]) -> dict[uuid.UUID, frozenset[int]]:
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
    owned: set[TopicIdPartition] = field(default_factory=set)
    assigned: set[TopicIdPartition] = field(default_factory=set)
    is_full: bool = True

    def beat(self, *, is_response_lost: bool = False) -> ErrorCode:
        is_full = self.is_full or self.epoch == 0
        heartbeat = ConsumerHeartbeat(
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000 if is_full else -1,
            topics=self.topics if is_full else None,
            pattern=self.pattern if is_full else None,
            assignor=self.assignor if is_full else None,
            reported=by_topic(self.owned) if is_full or self.owned == self.assigned else None,
        )
        consumer.check_heartbeat(heartbeat)
        try:
            response = self.coordinator.run(lambda step: consumer.heartbeat(step, heartbeat))
        except RequestRejected as rejected:
            self.is_full = True
            if rejected.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.forget()
            return rejected.code
        if is_response_lost:
            self.is_full = True
            return ErrorCode.NONE
        self.is_full = False
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.assigned = {
                TopicIdPartition(topic_id, partition)
                for topic_id, partitions in response.assignment.items()
                for partition in partitions
            }
            if self.owned <= self.assigned:
                self.owned = {*self.assigned}  # nothing to revoke: the new ones may be read immediately
        return ErrorCode.NONE

    def revoke(self) -> None:
        """Revoke partitions, and start to read the new ones."""
        self.owned = {*self.assigned}

    def forget(self) -> None:
        self.epoch, self.owned, self.assigned = 0, set(), set()

    def leave(self, epoch: int = -1) -> None:
        self.owned = set()
        leaving = ConsumerHeartbeat(
            member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        self.coordinator.run(lambda step: consumer.leave(step, leaving))
        self.forget()


@dataclass(slots=True, kw_only=True)
class ClassicClient:
    """A member of the classic protocol, which revokes all partitions in a rebalance, or only those that move."""

    coordinator: Coordinator
    member_id: str
    topics: tuple[str, ...]
    is_eager: bool
    epoch: int = -1
    owned: set[TopicIdPartition] = field(default_factory=set)

    def rejoin(self) -> None:
        if self.is_eager:
            self.owned = set()
        subscription = EmbeddedSubscription(
            topics=self.topics,
            owned_partitions=tuple(
                EmbeddedPartitions(topic=topic.name, partitions=tuple(partitions))
                for topic_id, partitions in by_topic(self.owned).items()
                if (topic := self.coordinator.topics.get_by_id(topic_id)) is not None
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
            self.epoch = joined.generation_id
            self._sync()
        except RequestRejected:
            self.forget()

    def _sync(self) -> None:
        sync = sync_request(self.member_id, self.epoch, {})
        synced = self.coordinator.run(lambda step: consumer_classic.sync(step, sync))
        if synced.error_code == ErrorCode.NONE:
            self.owned = {
                TopicIdPartition(topic.id, partition)
                for one in read_assignment(synced.assignment).assigned_partitions
                if (topic := self.coordinator.topics.get(one.topic)) is not None
                for partition in one.partitions
            }

    def beat(self) -> ErrorCode:
        heartbeat = HeartbeatRequest(group_id="g", member_id=self.member_id, generation_id=self.epoch)
        try:
            response = self.coordinator.run(lambda step: consumer_classic.heartbeat(step, heartbeat))
        except RequestRejected as rejected:
            self.forget()
            self.rejoin()
            return rejected.code
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin()
        return ErrorCode(response.error_code)

    def forget(self) -> None:
        self.epoch, self.owned = -1, set()

    def leave(self) -> None:
        self.owned = set()
        leaving = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=self.member_id),))
        self.coordinator.run(lambda step: consumer_classic.leave(step, leaving))
        self.forget()
