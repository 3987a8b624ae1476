"""Offsets of open transactions: they are not committed until their transaction ends.

A later commit of the same partition wins over an earlier one whose transaction ends after it, so every entry knows
its offset in the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from headrace.broker.groups.offsets import CommittedOffset, Offsets, TopicPartition


class PendingOffset(Struct, frozen=True):
    committed: CommittedOffset
    log_offset: int


class PendingOffsets:
    """Offsets of open transactions, by group and partition and then by producer."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, dict[int, PendingOffset]]] = {}
        self._groups_of: dict[int, set[str]] = {}

    def of(self, group_id: str) -> Collection[TopicPartition]:
        """The partitions of a group whose offset an open transaction may still change."""
        return self._by_group.get(group_id, {}).keys()

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._by_group

    def put(
        self,
        producer_id: int,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        log_offset: int,
    ) -> None:
        partitions = self._by_group.setdefault(group_id, {})
        for partition, committed in offsets.items():
            partitions.setdefault(partition, {})[producer_id] = PendingOffset(committed, log_offset)
        if not partitions:
            del self._by_group[group_id]
        self._groups_of.setdefault(producer_id, set()).add(group_id)

    def supersede(self, group_id: str, partition: TopicPartition, log_offset: int) -> None:
        """There is a commit outside of transactions, or of one that has ended, at this offset of the log."""
        entries = self._by_group.get(group_id, {}).get(partition, {})
        for producer_id in [one for one, entry in entries.items() if entry.log_offset < log_offset]:
            self._remove(group_id, partition, producer_id)

    def end(self, producer_id: int, offsets: Offsets, *, is_commit: bool) -> set[str]:
        """End a producer's transaction, and make its offsets visible if it commits; the groups concerned."""
        groups = self._groups_of.pop(producer_id, set())
        for group_id, partition, pending in [*self._entries(producer_id, groups)]:
            self._remove(group_id, partition, producer_id)
            if is_commit:
                offsets.put(group_id, partition, pending.committed)
                self.supersede(group_id, partition, pending.log_offset)
        return groups

    def _entries(
        self, producer_id: int, groups: Collection[str]
    ) -> Iterator[tuple[str, TopicPartition, PendingOffset]]:
        for group_id in groups:
            for partition, entries in self._by_group.get(group_id, {}).items():
                if producer_id in entries:
                    yield group_id, partition, entries[producer_id]

    def _remove(self, group_id: str, partition: TopicPartition, producer_id: int) -> None:
        partitions = self._by_group[group_id]
        del partitions[partition][producer_id]
        if not partitions[partition]:
            del partitions[partition]
        if not partitions:
            del self._by_group[group_id]
