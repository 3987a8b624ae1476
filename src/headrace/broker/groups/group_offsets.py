"""The committed offsets of groups: whether a member may commit, fetch or delete them, and which of them expire.

They are durable first, and only then in memory, where others see them. Changes become visible in the order in which
they were appended, so that memory always agrees with the log. Methods raise RequestRejected, also if a change can't be
made durable; then it has no effect.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from headrace.broker.groups import storage
from headrace.broker.groups.classic import check_commit
from headrace.broker.groups.classic_members import ClassicMembers
from headrace.broker.groups.consumer import check_epoch_of
from headrace.broker.groups.consumer_embedded import is_subscribed
from headrace.broker.groups.consumer_members import ConsumerMembers
from headrace.broker.groups.offsets import CommittedOffset, Offsets, TopicPartition, expired, unused
from headrace.broker.groups.registry import GroupRegistry
from headrace.broker.groups.state import UNKNOWN_MEMBER, Group, GroupState
from headrace.broker.groups.transactional_offsets import PendingOffsets
from headrace.broker.partition import Pending
from headrace.broker.rejections import RequestRejected
from headrace.broker.retries import until_done
from headrace.broker.runtime import Runtime, Tasks
from headrace.broker.state_topic import KeyValue, StateTopic
from headrace.errors import HeadraceError
from headrace.log.errors import BatchTooLarge
from headrace.protocol.error_codes import ErrorCode
from headrace.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

logger = logging.getLogger(__name__)

GroupPartition = tuple[str, TopicPartition]
"""A group and a partition that it has an offset of."""


class Committer(Struct, frozen=True, kw_only=True):
    """The client that commits; the default is one that is no member."""

    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None
    generation: int = -1
    has_epoch: bool = True
    """The request is of a version in which `generation` may be a member's epoch."""

    @property
    def is_member(self) -> bool:
        return self.generation >= 0 or self.member_id != UNKNOWN_MEMBER or self.instance_id is not None


class GroupOffsets:
    def __init__(
        self,
        topic: StateTopic,
        *,
        runtime: Runtime,
        registry: GroupRegistry,
        members: ClassicMembers,
        consumers: ConsumerMembers,
        tasks: Tasks,
        require_available: Callable[[], None],
    ) -> None:
        self._topic = topic
        self._runtime = runtime
        self._registry = registry
        self._members = members
        self._consumers = consumers
        self._tasks = tasks
        self._require_available = require_available
        self._offsets = Offsets()
        self._pending = PendingOffsets()
        self._deleted_topics: list[str] | None = []
        """Topics that were deleted while offsets were loaded; None since they are."""

    def load(self, offsets: Offsets, pending: PendingOffsets) -> None:
        """Start with the contents of the log."""
        self._offsets, self._pending = offsets, pending
        deleted, self._deleted_topics = self._deleted_topics, None
        for topic in deleted or ():
            self.topic_deleted(topic)

    def __len__(self) -> int:
        return len(self._offsets)

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._offsets.of(group_id)

    def unstable(self, group_id: str) -> Collection[TopicPartition]:
        """The partitions whose offset an open transaction may still change."""
        return self._pending.of(group_id)

    def committed(
        self, group_id: str, *, member_id: str | None = None, member_epoch: int = -1
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """The committed offsets of a group. A consumer-group member names itself, and its epoch must not be stale."""
        self._require_available()
        group = self._registry.consumer.get(group_id)
        if group is not None and (member_id is not None or member_epoch >= 0):
            check_epoch_of(group, member_id or "", member_epoch, covers=None)
        return self.of(group_id)

    # Committing

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], by: Committer
    ) -> Awaitable[None]:
        """Commit offsets; done when they are durable. Raises RequestRejected, also from the awaitable."""
        self._require_available()
        if not self._registry.is_taken(group_id):
            self._check_new_group(by, ErrorCode.GROUP_ID_NOT_FOUND)
        else:
            self._check_member(group_id, offsets, by)
        group = self._registry.classic.get(group_id)
        if group is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self._members.touch(group, by.member_id)  # a member that commits is alive
        return self._tasks.start(self._commit(group_id, offsets))

    async def _commit(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        if not offsets:
            return  # the topic is not created for nothing
        pending = self._append_offsets(group_id, offsets)
        await self._durable(pending)
        for partition, committed in offsets.items():
            self._offsets.put(group_id, partition, committed)
            self._pending.supersede(group_id, partition, pending.base_offset)
        self._ensure(group_id)

    def _ensure(self, group_id: str) -> None:
        """A client may commit without ever joining: its group exists from then on."""
        if not self._registry.is_taken(group_id):
            now_ms = self._runtime.clock.now_ms()
            self._registry.classic[group_id] = Group(group_id=group_id, state_since_ms=now_ms)

    def commit_in_transaction(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        by: Committer,
        *,
        producer_id: int,
        producer_epoch: int,
    ) -> Pending:
        """Append offsets that `end_transaction` commits with the producer's transaction.

        They are appended immediately: after the marker that ends the transaction they would start one that never ends.
        """
        self._require_available()
        if not self._registry.is_taken(group_id):
            self._check_new_group(by, ErrorCode.ILLEGAL_GENERATION)
        elif by.is_member:
            try:
                self._check_member(group_id, offsets, by)
            except RequestRejected as rejected:
                if rejected.code is ErrorCode.STALE_MEMBER_EPOCH:
                    # Transactional producers do not know this code.
                    raise RequestRejected(ErrorCode.ILLEGAL_GENERATION) from rejected
                raise
        pending = self._append_offsets(
            group_id, offsets, producer_id=producer_id, producer_epoch=producer_epoch
        )
        self._pending.put(producer_id, group_id, offsets, pending.base_offset)
        return pending

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Commit or drop the offsets of a producer's transaction, whose marker is durable."""
        for group_id in self._pending.end(producer_id, self._offsets, is_commit=is_commit):
            if self.of(group_id):
                self._ensure(group_id)

    def _check_new_group(self, by: Committer, not_found: ErrorCode) -> None:
        if by.generation >= 0:
            raise RequestRejected(not_found)
        if not self._registry.has_room:
            raise RequestRejected(ErrorCode.POLICY_VIOLATION)

    def _check_member(self, group_id: str, partitions: Iterable[TopicPartition], by: Committer) -> None:
        consumers = self._registry.consumer.get(group_id)
        if consumers is not None:
            self._consumers.check_commit(
                consumers, partitions, member_id=by.member_id, epoch=by.generation, has_epoch=by.has_epoch
            )
        else:
            check_commit(
                self._registry.classic[group_id],
                member_id=by.member_id,
                instance_id=by.instance_id,
                generation=by.generation,
            )

    # Deleting

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
        known = self.of(group_id)
        removed = [(group_id, name) for name in partitions if name.topic not in consumed and name in known]
        return self._tasks.start(self._delete(removed, results))

    async def _delete(
        self, removed: Sequence[GroupPartition], results: Mapping[TopicPartition, ErrorCode]
    ) -> Mapping[TopicPartition, ErrorCode]:
        if removed:
            await self._remove(removed)
        return results

    def _consumed(self, group_id: str, topics: Collection[str]) -> set[str]:
        """The topics that members of the group consume."""
        consumers = self._registry.consumer.get(group_id)
        if consumers is not None:
            return consumers.subscribed_topics() & {*topics}
        group = self._registry.classic.get(group_id)
        if group is None:
            raise RequestRejected(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
            raise RequestRejected(ErrorCode.NON_EMPTY_GROUP)
        return {topic for topic in topics if is_subscribed(group, topic)}

    def remove_group(self, group_id: str, tombstones: Iterable[KeyValue]) -> Awaitable[None]:
        """Remove a group's offsets together with the group itself, whose tombstones come last."""
        return self._remove([(group_id, partition) for partition in self.of(group_id)], tombstones)

    def _remove(
        self, removed: Sequence[GroupPartition], tombstones: Iterable[KeyValue] = ()
    ) -> Awaitable[None]:
        log = self._topic.partition.log
        base_offset = log.end_offset
        try:
            return self._removed(removed, self._append_tombstones(removed, tombstones))
        except RequestRejected:
            # The log has the first tombstones.
            self._drop(removed[: log.end_offset - base_offset], base_offset)
            raise

    async def _removed(self, removed: Iterable[GroupPartition], pending: Pending) -> None:
        await self._durable(pending)
        self._drop(removed, pending.base_offset)

    def _drop(self, removed: Iterable[GroupPartition], log_offset: int) -> None:
        for group_id, partition in removed:
            self._offsets.remove(group_id, partition)
            self._pending.supersede(group_id, partition, log_offset)

    def topic_deleted(self, topic: str) -> None:
        """Delete the offsets of a topic: now, because a topic of the same name may be created."""
        if self._deleted_topics is not None:
            self._deleted_topics.append(topic)
            return
        removed = [*self._offsets.of_topic(topic)]
        for group_id, partition in removed:
            self._offsets.remove(group_id, partition)
        self._tasks.start(self._store_removed(removed))

    async def _store_removed(self, removed: Sequence[GroupPartition]) -> None:
        async def store() -> None:
            # A later commit follows the old one in the log, and supersedes it.
            missing = [name for name in removed if name[1] not in self.of(name[0])]
            if missing:
                await self._durable(self._append_tombstones(missing))

        def failed(failure: Exception) -> None:
            if not isinstance(failure, RequestRejected):  # which is logged already
                self._runtime.failures.report("offsets of a deleted topic are not removed", failure)

        await until_done(store, on_failure=failed)

    async def expire(self, now_ms: int, retention_ms: int) -> None:
        """Delete the offsets that were not consumed from for longer than their retention."""
        limits = {"now_ms": now_ms, "retention_ms": retention_ms}
        old = [
            (group_id, partition)
            for group_id, group in self._registry.classic.items()
            for partition in expired(group, self.of(group_id), **limits)
        ]
        old += [
            (group_id, partition)
            for group_id, consumers in self._registry.consumer.items()
            for partition in unused(self.of(group_id), consumers.subscribed_topics(), **limits)
        ]
        if old:
            await self._remove(old)
            logger.info("offsets expired", extra={"offsets": len(old)})

    # Storing

    def _append_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Pending:
        """Append all offsets or, if that fails, none of them: a commit that failed must not count after a restart."""
        entries = (storage.offset_record(group_id, *offset) for offset in offsets.items())
        try:
            return self._topic.append(
                entries, in_one_batch=True, producer_id=producer_id, producer_epoch=producer_epoch
            )
        except BatchTooLarge as failure:
            raise RequestRejected(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, failure.message) from failure
        except (HeadraceError, OSError) as failure:
            raise _rejected(failure) from failure

    def _append_tombstones(
        self, removed: Iterable[GroupPartition], others: Iterable[KeyValue] = ()
    ) -> Pending:
        """Append as many as fit: if that fails, the log may have the first of them."""
        try:
            return self._topic.append([*(storage.offset_tombstone(*name) for name in removed), *others])
        except (HeadraceError, OSError) as failure:
            raise _rejected(failure) from failure

    async def _durable(self, pending: Pending) -> None:
        try:
            await self._topic.durable(pending)
        except (HeadraceError, OSError) as failure:
            raise _rejected(failure) from failure


def _rejected(failure: HeadraceError | OSError) -> RequestRejected:
    logger.error("offsets not stored: %s", failure)
    return RequestRejected(storage.append_error(failure))
