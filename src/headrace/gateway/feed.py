"""The newest records of a topic, in the order in which the gateway read them, shared by all its streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from headrace.gateway.records import Record


class Kept(Struct):
    record: Record
    events: dict[str, bytes]
    """What streams send of it, made by the first that needs it. Streams at the same position send the same."""


class Feed:
    """Records have numbers, counted from the first that was read. `start` is the next offset of each partition."""

    def __init__(self, topic: str, start: Mapping[int, int], *, records_max: int, bytes_max: int) -> None:
        self.topic = topic
        self.first = 0
        """The number of the oldest record that is kept."""
        self.before_first = dict(start)
        """The offsets before it: everything from there on is kept."""
        self.end = 0
        self.at_end = dict(start)
        self.wakers: set[Callable[[], None]] = set()
        """Called when there are more records."""
        self._kept: list[Kept] = []
        self._skipped = 0  # entries of the list before `first`
        self._bytes = 0
        self._records_max, self._bytes_max = records_max, bytes_max

    def append(self, records: Sequence[Record]) -> None:
        """Records twice, as a consumer may get them after an error, are kept once."""
        for each in records:
            if each.offset < self.at_end.get(each.partition, 0):
                continue
            self._kept.append(Kept(each, {}))
            self.at_end[each.partition] = each.offset + 1
            self._bytes += each.size_bytes
            self.end += 1
        while self.end > self.first + 1 and self._is_too_large():
            self._drop_first()
        if self._skipped > self._records_max:
            del self._kept[: self._skipped]
            self._skipped = 0
        self.wake()

    def add_partition(self, partition: int, offset: int) -> None:
        self.before_first.setdefault(partition, offset)
        self.at_end.setdefault(partition, offset)

    def since(self, number: int, count: int) -> Sequence[Kept]:
        """At most `count` records from this number on, which is not before `first`."""
        index = self._skipped + number - self.first
        return self._kept[index : index + count]

    def has_all_after(self, offsets: Mapping[int, int]) -> bool:
        """Whether every record after these offsets, which the gateway has read, is kept."""
        return all(offsets.get(partition, 0) >= first for partition, first in self.before_first.items())

    def place_of(self, offsets: Mapping[int, int]) -> tuple[int, dict[int, int]]:
        """Where a reader with these offsets continues: the number of the first record that it has not, and the offsets
        before that record. It may have later ones already. Found from the end, where most readers are."""
        before = dict(self.at_end)
        behind = {each for each, end in self.at_end.items() if offsets.get(each, 0) < end}
        number = self.end
        while behind and number > self.first:
            number -= 1
            record = self._kept[self._skipped + number - self.first].record
            before[record.partition] = record.offset
            if record.offset <= offsets.get(record.partition, 0):
                behind.discard(record.partition)
        return number, before

    def wake(self) -> None:
        for each in [*self.wakers]:
            each()

    def _is_too_large(self) -> bool:
        return self.end - self.first > self._records_max or self._bytes > self._bytes_max

    def _drop_first(self) -> None:
        dropped = self._kept[self._skipped]
        self._kept[self._skipped] = _DROPPED
        self.before_first[dropped.record.partition] = dropped.record.offset + 1
        self._bytes -= dropped.record.size_bytes
        self._skipped += 1
        self.first += 1


_DROPPED = Kept(Record(topic="", partition=0, offset=0, timestamp_ms=0, key=None, value=None, headers=[]), {})
