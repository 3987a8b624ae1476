"""The committed offsets of groups: durable first, and only then in memory, where others see them.

Changes become visible in the order in which they were appended, so that memory always agrees with the log. Whether a
group may commit is the coordinator's matter: it knows the members.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence

from headrace.broker.groups import storage
from headrace.broker.groups.offsets import CommittedOffset, Offsets, TopicPartition
from headrace.broker.groups.transactional_offsets import PendingOffsets
from headrace.broker.partition import Pending
from headrace.broker.refusals import RequestRefused
from headrace.broker.state_topic import KeyValue, StateTopic
from headrace.errors import HeadraceError
from headrace.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

logger = logging.getLogger(__name__)


class KeptOffsets:
    """Methods raise RequestRefused if a change can't be made durable, and don't make it."""

    def __init__(self, topic: StateTopic) -> None:
        self._topic = topic
        self._offsets = Offsets()
        self._pending = PendingOffsets()

    def load(self, offsets: Offsets, pending: PendingOffsets) -> None:
        """Start with what the log has."""
        self._offsets, self._pending = offsets, pending

    def __len__(self) -> int:
        return len(self._offsets)

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._offsets.of(group_id)

    def unstable(self, group_id: str) -> Collection[TopicPartition]:
        """The partitions whose offset an open transaction may still change."""
        return self._pending.of(group_id)

    async def put(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        if not offsets:
            return  # the topic is not created for nothing
        pending = self._append(storage.offset_record(group_id, *offset) for offset in offsets.items())
        await self._durable(pending)
        for partition, committed in offsets.items():
            self._offsets.put(group_id, partition, committed)
            self._pending.supersede(group_id, partition, pending.base_offset)

    def put_in_transaction(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        producer_id: int,
        producer_epoch: int,
    ) -> Pending:
        """Append offsets that `end_transaction` commits or drops.

        They are appended at once: after the marker that ends the transaction they would begin one that nobody ends.
        """
        pending = self._append(
            (storage.offset_record(group_id, *offset) for offset in offsets.items()),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        self._pending.put(producer_id, group_id, offsets, pending.base_offset)
        return pending

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> list[str]:
        """Commit or drop the offsets of a transaction; returns its groups that have offsets now."""
        groups = self._pending.end(producer_id, self._offsets, is_commit=is_commit)
        return [group_id for group_id in groups if self._offsets.of(group_id)]

    async def remove(self, removed: Sequence[tuple[str, TopicPartition]]) -> None:
        if removed:
            await self._remove(removed)

    def remove_group(self, group_id: str, tombstones: Iterable[KeyValue]) -> Awaitable[None]:
        """Remove a group's offsets together with the group itself, whose tombstones come last."""
        return self._remove([(group_id, partition) for partition in self._offsets.of(group_id)], tombstones)

    def _remove(
        self, removed: Sequence[tuple[str, TopicPartition]], tombstones: Iterable[KeyValue] = ()
    ) -> Awaitable[None]:
        log = self._topic.partition.log
        base_offset = log.end_offset
        offsets = (storage.offset_tombstone(*name) for name in removed)
        try:
            return self._removed(removed, self._append([*offsets, *tombstones]))
        except RequestRefused:
            self._drop(
                removed[: log.end_offset - base_offset], base_offset
            )  # the log has the first tombstones
            raise

    async def _removed(self, removed: Iterable[tuple[str, TopicPartition]], pending: Pending) -> None:
        await self._durable(pending)
        self._drop(removed, pending.base_offset)

    def _drop(self, removed: Iterable[tuple[str, TopicPartition]], log_offset: int) -> None:
        for group_id, partition in removed:
            self._offsets.remove(group_id, partition)
            self._pending.supersede(group_id, partition, log_offset)

    def forget_topic(self, topic: str) -> list[tuple[str, TopicPartition]]:
        """At once, because a topic of the same name may be created. The caller stores it with `store_removed`."""
        gone = [*self._offsets.of_topic(topic)]
        for group_id, partition in gone:
            self._offsets.remove(group_id, partition)
        return gone

    async def store_removed(self, gone: Iterable[tuple[str, TopicPartition]]) -> None:
        # A later commit follows the old one in the log, and supersedes it.
        missing = [name for name in gone if name[1] not in self._offsets.of(name[0])]
        if missing:
            await self._durable(self._append(storage.offset_tombstone(*name) for name in missing))

    def _append(
        self,
        entries: Iterable[KeyValue],
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Pending:
        try:
            return self._topic.append(entries, producer_id=producer_id, producer_epoch=producer_epoch)
        except (HeadraceError, OSError) as failure:
            raise _refused(failure) from failure

    async def _durable(self, pending: Pending) -> None:
        try:
            await self._topic.durable(pending)
        except (HeadraceError, OSError) as failure:
            raise _refused(failure) from failure


def _refused(failure: HeadraceError | OSError) -> RequestRefused:
    logger.error("offsets not stored: %s", failure)
    return RequestRefused(storage.append_error(failure))
