"""The offsets of groups: whether a member may commit, fetch or delete them, and which of them expire.

A change takes effect when its method is called; the caller waits only for the disk. Methods raise RequestRefused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial

from headrace.broker.groups.classic import check_commit
from headrace.broker.groups.classic_members import ClassicMembers
from headrace.broker.groups.consumer import check_epoch_of
from headrace.broker.groups.consumer_members import ConsumerMembers
from headrace.broker.groups.kept_offsets import KeptOffsets
from headrace.broker.groups.offsets import CommittedOffset, TopicPartition, expired, expired_of_consumers
from headrace.broker.groups.registry import GroupRegistry
from headrace.broker.groups.state import UNKNOWN_MEMBER, Group, GroupState
from headrace.broker.groups.subscription import is_subscribed
from headrace.broker.partition import Pending
from headrace.broker.refusals import RequestRefused
from headrace.broker.retries import until_done
from headrace.broker.runtime import Runtime
from headrace.broker.tasks import Tasks
from headrace.protocol.error_codes import ErrorCode


class GroupOffsets:
    def __init__(
        self,
        kept: KeptOffsets,
        *,
        runtime: Runtime,
        registry: GroupRegistry,
        members: ClassicMembers,
        consumers: ConsumerMembers,
        tasks: Tasks,
        unavailable: Callable[[], ErrorCode | None],
    ) -> None:
        self._kept = kept
        self._runtime = runtime
        self._clock = runtime.clock
        self._registry = registry
        self._members = members
        self._consumers = consumers
        self._tasks = tasks
        self._unavailable = unavailable

    def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        says_epoch: bool = True,
    ) -> Awaitable[None]:
        """Commit offsets; done when they are durable. Raises RequestRefused, also from the awaitable.

        `says_epoch`: the request is of a version in which `generation` may be a member's epoch.
        """
        self._require_available()
        group = self._registry.classic.get(group_id)
        consumers = self._consumers.get(group_id)
        if consumers is not None:
            checked = self._consumers.check_commit(
                consumers, offsets, member_id=member_id, epoch=generation, says_epoch=says_epoch
            )
            _require(checked)
        elif group is None:
            if generation >= 0:
                raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND)
            _require(self._registry.check_room())
        else:
            _require(check_commit(group, member_id=member_id, instance_id=instance_id, generation=generation))
            if group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
                self._members.touch(group, member_id)  # a member that commits is alive
        return self._tasks.start(self._commit(group_id, offsets))

    async def _commit(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        await self._kept.put(group_id, offsets)
        if offsets:
            self._ensure(group_id)

    def _ensure(self, group_id: str) -> None:
        """A client may commit without ever joining: its group exists from then on."""
        if not self._registry.is_taken(group_id):
            self._registry.classic[group_id] = Group(group_id=group_id, state_since_ms=self._clock.now_ms())

    def commit_in_transaction(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        producer_id: int,
        producer_epoch: int,
        member_id: str,
        instance_id: str | None,
        generation: int,
    ) -> Pending:
        """Store offsets that `end_transaction` commits with the producer's transaction."""
        self._require_available()
        group = self._registry.classic.get(group_id)
        consumers = self._consumers.get(group_id)
        if consumers is not None:
            if generation >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
                checked = self._consumers.check_commit(
                    consumers, offsets, member_id=member_id, epoch=generation, says_epoch=True
                )
                # Transactional producers do not know STALE_MEMBER_EPOCH.
                is_stale = checked is ErrorCode.STALE_MEMBER_EPOCH
                _require(ErrorCode.ILLEGAL_GENERATION if is_stale else checked)
        elif group is None:
            if generation >= 0:
                raise RequestRefused(ErrorCode.ILLEGAL_GENERATION)
            _require(self._registry.check_room())
        elif generation >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
            _require(check_commit(group, member_id=member_id, instance_id=instance_id, generation=generation))
        return self._kept.put_in_transaction(
            group_id, offsets, producer_id=producer_id, producer_epoch=producer_epoch
        )

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Commit or drop the offsets of a producer's transaction, whose marker is durable."""
        for group_id in self._kept.end_transaction(producer_id, is_commit=is_commit):
            self._ensure(group_id)

    def unstable(self, group_id: str) -> Collection[TopicPartition]:
        """The partitions whose offset an open transaction may still change."""
        return self._kept.unstable(group_id)

    def committed(
        self, group_id: str, *, member_id: str | None = None, member_epoch: int = -1
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """The committed offsets of a group. A consumer-group member names itself, and its epoch must not be stale."""
        self._require_available()
        group = self._consumers.get(group_id)
        if group is not None and (member_id is not None or member_epoch >= 0):
            _require(check_epoch_of(group, member_id or "", member_epoch, covers=None))
        return self._kept.of(group_id)

    def delete(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Awaitable[Mapping[TopicPartition, ErrorCode]]:
        """Delete the offsets of topics that no member consumes; the result for each partition."""
        self._require_available()
        consumed = self._consumed(group_id, {name.topic for name in partitions})
        results = {
            name: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if name.topic in consumed else ErrorCode.NONE
            for name in partitions
        }
        known = self._kept.of(group_id)
        removed = [(group_id, name) for name in partitions if name.topic not in consumed and name in known]
        return self._tasks.start(self._delete(removed, results))

    def _consumed(self, group_id: str, topics: Collection[str]) -> set[str]:
        """The topics that members of the group consume."""
        consumers = self._consumers.get(group_id)
        if consumers is not None:
            return consumers.subscribed_topics() & {*topics}
        group = self._registry.classic.get(group_id)
        if group is None:
            raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
            raise RequestRefused(ErrorCode.NON_EMPTY_GROUP)
        return {topic for topic in topics if is_subscribed(group, topic)}

    async def _delete(
        self, removed: Sequence[tuple[str, TopicPartition]], results: Mapping[TopicPartition, ErrorCode]
    ) -> Mapping[TopicPartition, ErrorCode]:
        await self._kept.remove(removed)
        return results

    def topic_deleted(self, topic: str) -> None:
        """Delete the offsets of a topic that was deleted."""
        if self._unavailable() is None:
            self._tasks.start(self._store_removed(self._kept.forget_topic(topic)))

    async def _store_removed(self, removed: Sequence[tuple[str, TopicPartition]]) -> None:
        def failed(failure: Exception) -> None:
            if not isinstance(failure, RequestRefused):  # which `KeptOffsets` logs
                self._runtime.failures.report("offsets of a deleted topic are not removed", failure)

        await until_done(partial(self._kept.store_removed, removed), on_failure=failed)

    def expired(self, now_ms: int, retention_ms: int) -> list[tuple[str, TopicPartition]]:
        """The offsets that nobody has consumed from for longer than their retention."""
        old = [
            (group.group_id, partition)
            for group in self._registry.classic.values()
            for partition in expired(
                group, self._kept.of(group.group_id), now_ms=now_ms, retention_ms=retention_ms
            )
        ]
        for group in self._registry.consumer.values():
            offsets = self._kept.of(group.group_id)
            consumed = self._consumed(group.group_id, {partition.topic for partition in offsets})
            unused = expired_of_consumers(consumed, offsets, now_ms=now_ms, retention_ms=retention_ms)
            old += [(group.group_id, partition) for partition in unused]
        return old

    def _require_available(self) -> None:
        error = self._unavailable()
        if error is not None:
            raise RequestRefused(error)


def _require(error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        raise RequestRefused(error)
