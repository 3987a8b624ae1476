"""The order of keys in one share group on one partition: which records may be delivered without overtaking another.

A record is delivered when every earlier record of its key is done, or is delivered to the same member by the same
fetch. So all records in flight of a key are with one member, and were handed to it in order. Records without a key are
not ordered.

The keys of a record are read once, and then it waits in a chunk until a fetch takes it. No two members have a key in
common, so a fetch of whole batches, and the end of all that a member has locked, are a few operations on sets of keys.
Records whose keys were not read need no memory. Pure: no log, no clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from headrace.broker.shares.spans import OffsetRange
from headrace.broker.shares.waiting_keys import Chunk, Held, ranges_of
from headrace.records.keys import KeyHash

WAITING_MAX = 100_000
"""Records that may wait for earlier ones of their keys: some 200 bytes each. Then no further keys are read."""


class Missing:
    """Takes the place of a key where there is nothing to deliver: compacted, aborted or a control record."""


MISSING = Missing()

Ahead = KeyHash | Missing


class OpenRange(OffsetRange, frozen=True):
    """Offsets some of which can be delivered."""

    expected: int
    """How many: an estimate."""


class Progress(Struct, frozen=True):
    """Equal as long as no more keys were read, and none has become free."""

    decoded_to: int
    freed: int


class KeyOrder:
    def __init__(self, start_offset: int) -> None:
        self.decoded_to = start_offset
        """The first offset whose key is not known."""
        self.waiting_records = 0
        self._freed = 0
        self._chunks: list[Chunk] = []
        # Keys of locked records, and what each member has locked.
        self._busy: set[KeyHash] = set()
        self._held: dict[str, Held] = {}
        # The first released record of keys that still have others locked.
        self._returned: dict[KeyHash, int] = {}

    # Looking

    @property
    def progress(self) -> Progress:
        return Progress(self.decoded_to, self._freed)

    @property
    def may_search(self) -> bool:
        return self.waiting_records < WAITING_MAX

    def open_ranges(self, records_max: int, ranges_max: int, *, whole_max: int) -> list[OpenRange]:
        """Where to read for records that one fetch could lock, in the order of offsets."""
        found: list[OpenRange] = []
        enough = records_max
        records = 0
        passed: set[KeyHash] = set()
        for chunk, free in self._open_chunks(passed):
            first = chunk.first_free(free)
            passed |= chunk.delayed_keys()
            if first is None:
                continue
            found.append(OpenRange(first, chunk.offsets[-1], chunk.expected(free)))
            records += found[-1].expected
            enough = max(enough, min(chunk.reach, whole_max))
            if records >= enough or len(found) >= ranges_max:
                break
        return found

    def is_behind(self, member_id: str, offset: int) -> bool:
        """Whether a locked record has an earlier one of its key that waits: nobody processed it, then."""
        return bool(self._returned) and self._returned.get(self._held[member_id].key(offset), offset) < offset

    def _open_chunks(self, passed: set[KeyHash]) -> Iterator[tuple[Chunk, set[KeyHash]]]:
        """Chunks with keys that are neither in flight nor in `passed`, which the caller may add to."""
        for chunk in self._chunks:
            if chunk.is_blocked:
                continue
            free = chunk.keys - self._busy
            chunk.is_blocked = not free
            free -= passed
            if free:
                yield chunk, free

    # Keys

    def add(
        self,
        offsets: Sequence[int],
        hashes: Sequence[KeyHash],
        keys: set[KeyHash],
        delayed: Collection[int] = (),
    ) -> None:
        """Records behind all that are known, with the set of their keys."""
        self.waiting_records += len(offsets)
        if self._chunks and self._chunks[-1].may_hold(offsets[-1]):
            self._chunks[-1].extend(offsets, hashes, keys, delayed)
        else:
            self._chunks.append(Chunk.of(offsets, hashes, keys, delayed))

    # Locking

    def take(
        self,
        member_id: str,
        read: Sequence[OffsetRange],
        *,
        records_max: int,
        whole_max: int,
        sharers: int = 1,
    ) -> list[OffsetRange]:
        """Lock records within these ranges, which were read, for a member.

        Up to `whole_max`, a fetch takes as many records as the largest of its batches has, which a group without order
        would have given it: other members have the keys of some, so it takes them from several batches.
        If keys are shared among several members, it takes only its share of those that are free.
        """
        taken: list[OffsetRange] = []
        held = self._held.get(member_id) or Held()
        passed: set[KeyHash] = set()
        records, enough = 0, records_max
        for chunk, all_free in self._open_chunks(passed) if records_max > 0 else ():
            free = chunk.first_keys(all_free, -(-len(all_free) // sharers)) if sharers > 1 else all_free
            last, unread = _read_of(chunk, free, read)
            offsets, hashes = chunk.take(free, records_max=whole_max - records, last=last, unread=unread)
            if offsets:
                taken += ranges_of(offsets)
                # Less than a comparison of all keys: what was not taken of a free key is still in the chunk.
                held.add(offsets, hashes, free if free.isdisjoint(chunk.keys) else set(hashes))
                records += len(offsets)
                enough = max(enough, min(chunk.reach, whole_max))
            passed |= chunk.keys
            passed.discard(None)
            if records >= enough:
                break
        if records:
            held.keys.discard(None)
            self._held[member_id] = held
            self._busy |= held.keys
            self.waiting_records -= records
            self._drop_empty()
        return taken

    def _drop_empty(self) -> None:
        self._chunks = [chunk for chunk in self._chunks if chunk.offsets]

    # Unlocking

    def finish(self, member_id: str, ranges: Sequence[OffsetRange]) -> None:
        """A member had locked these records, and they are never delivered again."""
        held = self._held[member_id]
        if sum([one.records for one in ranges]) == held.records:
            del self._held[member_id]
            self._free(held.keys)
            return
        for one in ranges:
            self._unlock(member_id, range(one.first, one.last + 1))

    def release(self, member_id: str, offset: int, *, is_delayed: bool) -> None:
        """A record that a member had locked waits again."""
        key = self._held[member_id].key(offset)
        self._put_back(offset, key, is_delayed=is_delayed)
        if key is not None:
            self._returned[key] = min(self._returned.get(key, offset), offset)
        self._unlock(member_id, (offset,))

    def end_delays(self, first: int, last: int) -> None:
        for chunk in self._chunks:
            if chunk.delayed and chunk.first <= last and chunk.last >= first:
                chunk.delayed.difference_update([each for each in chunk.delayed if first <= each <= last])

    def skip_to(self, offset: int) -> None:
        """Records before this offset are done, or deleted."""
        self.decoded_to = max(self.decoded_to, offset)

    def start_at(self, offset: int) -> None:
        """Records before this offset are deleted."""
        for chunk in self._chunks:
            if chunk.first >= offset:
                break
            self.waiting_records -= chunk.drop_before(offset)
        self._drop_empty()
        for key in [key for key, returned in self._returned.items() if returned < offset]:
            self._forget_returned(key)
        for member_id, held in [*self._held.items()]:
            deleted = held.before(offset)
            if deleted:
                self._unlock(member_id, deleted)
        self.skip_to(offset)

    def _forget_returned(self, key: KeyHash) -> None:
        del self._returned[key]
        for chunk in self._chunks:
            if key in chunk.keys:
                self._returned[key] = chunk.offsets[chunk.hashes.index(key)]
                return

    def _unlock(self, member_id: str, offsets: Collection[int]) -> None:
        held = self._held[member_id]
        freed = held.remove(offsets)
        if not held.records:
            del self._held[member_id]
        if freed:
            self._free(freed)

    def _free(self, keys: set[KeyHash]) -> None:
        self._freed += 1
        self._busy -= keys
        if self._returned:
            for key in keys:
                self._returned.pop(key, None)
        for chunk in self._chunks:
            if chunk.is_blocked and not chunk.keys.isdisjoint(keys):
                chunk.is_blocked = False

    def _put_back(self, offset: int, key: KeyHash, *, is_delayed: bool) -> None:
        self.waiting_records += 1
        index = bisect_right(self._chunks, offset, key=lambda chunk: chunk.first)
        if index and self._chunks[index - 1].may_hold(offset):
            self._chunks[index - 1].put_back(offset, key, is_delayed=is_delayed)
        else:
            self._chunks.insert(index, Chunk.of((offset,), (key,), {key}, (offset,) if is_delayed else ()))


def _read_of(chunk: Chunk, free: set[KeyHash], read: Sequence[OffsetRange]) -> tuple[int, Collection[int]]:
    """The last offset of a chunk that was read, and those before it that were not, from the first free one on."""
    first = chunk.first_free(free)
    if first is None:
        return chunk.first - 1, ()
    firsts = [one.first for one in read]
    begin, end = bisect_right(firsts, first) - 1, bisect_right(firsts, chunk.offsets[-1]) - 1
    if end < 0 or read[end].last < first:
        return chunk.first - 1, ()
    if begin == end:
        return read[end].last, ()

    def was_read(offset: int) -> bool:
        place = bisect_right(firsts, offset) - 1
        return place >= 0 and offset <= read[place].last

    return read[end].last, {offset for offset in chunk.offsets if offset >= first and not was_read(offset)}
