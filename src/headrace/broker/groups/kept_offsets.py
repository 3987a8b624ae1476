"""What groups have committed: on disk first, and only then in memory, where it is told to others.

Whether a group may commit is not asked here; the coordinator knows who is in it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence

from headrace.broker.appends import Appends
from headrace.broker.groups import storage
from headrace.broker.groups.errors import GroupRefused
from headrace.broker.groups.offsets import CommittedOffset, Offsets, TopicPartition
from headrace.broker.groups.transactional_offsets import PendingOffsets
from headrace.errors import HeadraceError

logger = logging.getLogger(__name__)


class KeptOffsets:
    """What can't be written raises GroupRefused, and has not happened."""

    def __init__(self, appends: Appends) -> None:
        self._appends = appends
        self._offsets = Offsets()
        self._pending = PendingOffsets()

    def load(self, offsets: Offsets, pending: PendingOffsets) -> None:
        """Begin with what the log says."""
        self._offsets, self._pending = offsets, pending

    def __len__(self) -> int:
        return len(self._offsets)

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._offsets.of(group_id)

    def unstable(self, group_id: str) -> Collection[TopicPartition]:
        """The partitions whose offset an open transaction may still change."""
        return self._pending.of(group_id)

    async def put(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        log_offset = storage.end_offset(self._appends)
        await self._append(storage.offset_record(group_id, *offset) for offset in offsets.items())
        for partition, committed in offsets.items():
            self._offsets.put(group_id, partition, committed)
            self._pending.supersede(group_id, partition, log_offset)

    def put_in_transaction(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        producer_id: int,
        producer_epoch: int,
    ) -> Awaitable[None]:
        """They count from `end_transaction` on, if that is a commit."""
        entries = [storage.offset_record(group_id, *offset) for offset in offsets.items()]
        try:
            log_offset, durable = storage.append_in_transaction(
                self._appends, entries, producer_id=producer_id, producer_epoch=producer_epoch
            )
        except (HeadraceError, OSError) as failure:
            raise _refused(failure) from failure
        self._pending.put(producer_id, group_id, offsets, log_offset)
        return durable

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> list[str]:
        """The groups among those concerned that have offsets now."""
        groups = self._pending.end(producer_id, self._offsets, is_commit=is_commit)
        return [group_id for group_id in groups if self._offsets.of(group_id)]

    async def remove(self, removed: Sequence[tuple[str, TopicPartition]]) -> None:
        await self._append(storage.offset_tombstone(*name) for name in removed)
        for group_id, partition in removed:
            self._offsets.remove(group_id, partition)

    def forget_topic(self, topic: str) -> list[tuple[str, TopicPartition]]:
        """At once, since a topic of the same name may come. The caller stores it with `store_removed`."""
        gone = [*self._offsets.of_topic(topic)]
        for group_id, partition in gone:
            self._offsets.remove(group_id, partition)
        return gone

    async def store_removed(self, gone: Iterable[tuple[str, TopicPartition]]) -> None:
        # What was committed since stands behind the old one in the log, and supersedes it.
        missing = [name for name in gone if name[1] not in self._offsets.of(name[0])]
        if missing:
            await self._append(storage.offset_tombstone(*name) for name in missing)

    async def remove_group(self, group_id: str) -> None:
        """With what the log has of the group itself."""
        removed = [*self._offsets.of(group_id)]
        tombstones = [storage.offset_tombstone(group_id, partition) for partition in removed]
        await self._append([*tombstones, storage.group_tombstone(group_id)])
        for partition in removed:
            self._offsets.remove(group_id, partition)

    async def _append(self, entries: Iterable[storage.KeyValue]) -> None:
        try:
            await storage.append(self._appends, [*entries])
        except (HeadraceError, OSError) as failure:
            raise _refused(failure) from failure


def _refused(failure: HeadraceError | OSError) -> GroupRefused:
    logger.error("offsets not stored: %s", failure)
    return GroupRefused(storage.told(failure))
