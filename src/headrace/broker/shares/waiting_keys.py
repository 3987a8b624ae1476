"""Records of an ordered group that wait, in chunks of consecutive batches, and the keys that a member has locked.

A chunk keeps offsets and keys in two parallel sequences, and its keys as a set. Which of its records are taken is
decided for all of them at once: with a mask of one byte per record, not with an object per range.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, compress, islice, pairwise

from msgspec import Struct, field

from headrace.broker.shares.spans import OffsetRange
from headrace.records.keys import KeyHash

SMALL_CHUNK_RECORDS = 1_000
"""Chunks that reach over fewer offsets are extended: a producer that sends single records would make one for each."""

_MASK_PIECE_RECORDS = 64
_INVERTED = bytes((1, 0)).ljust(256)


class Chunk(Struct, eq=False):
    """Records that wait. No other chunk has records between the first and the last offset of this one."""

    offsets: Sequence[int]
    hashes: Sequence[KeyHash]
    keys: set[KeyHash]
    first: int
    last: int
    delayed: set[int] = field(default_factory=set)
    """Offsets that are not delivered yet, nor are later ones of their keys."""
    is_blocked: bool = False
    """Whether each of its keys is in flight."""

    @classmethod
    def of(
        cls, offsets: Sequence[int], hashes: Sequence[KeyHash], keys: set[KeyHash], delayed: Collection[int]
    ) -> Chunk:
        return cls(offsets, hashes, keys, offsets[0], offsets[-1], set(delayed))

    @property
    def reach(self) -> int:
        """At least the records of its batch."""
        return self.last - self.first + 1

    def may_hold(self, offset: int) -> bool:
        return self.first <= offset and (offset <= self.last or offset - self.first < SMALL_CHUNK_RECORDS)

    def extend(
        self, offsets: Sequence[int], hashes: Sequence[KeyHash], keys: set[KeyHash], delayed: Collection[int]
    ) -> None:
        """Add records behind the last one."""
        self.offsets = [*self.offsets, *offsets]
        self.hashes = [*self.hashes, *hashes]
        self.keys |= keys
        self.delayed.update(delayed)
        self.last = offsets[-1]
        self.is_blocked = False

    def put_back(self, offset: int, key: KeyHash, *, is_delayed: bool) -> None:
        offsets, hashes = [*self.offsets], [*self.hashes]
        index = bisect_left(offsets, offset)
        offsets.insert(index, offset)
        hashes.insert(index, key)
        self.offsets, self.hashes = offsets, hashes
        self.keys.add(key)
        if is_delayed:
            self.delayed.add(offset)
        self.last = max(self.last, offset)
        self.is_blocked = False

    def drop_before(self, offset: int) -> int:
        """Returns how many records were dropped."""
        count = bisect_left(self.offsets, offset)
        self.offsets, self.hashes = self.offsets[count:], self.hashes[count:]
        self.keys = set(self.hashes)
        self.delayed = {each for each in self.delayed if each >= offset}
        return count

    def delayed_keys(self) -> set[KeyHash]:
        keys = dict(zip(self.offsets, self.hashes, strict=True)) if self.delayed else {}
        return {keys[offset] for offset in self.delayed} - {None}

    def first_free(self, free: set[KeyHash]) -> int | None:
        """The first record that `take` would take."""
        is_free = self._with_held_back(free, self.delayed) if self.delayed else self._is_free(free)
        return next(compress(self.offsets, is_free), None)

    def first_keys(self, free: set[KeyHash], count: int) -> set[KeyHash]:
        """So many of these keys, those whose records come first. All of them while a record is delayed."""
        if self.delayed:
            return free
        in_order = dict.fromkeys(compress(self.hashes, self._is_free(free)))
        return set(islice(in_order, count))

    def expected(self, free: set[KeyHash]) -> int:
        """How many records of these keys there are: an estimate."""
        return max(len(self.offsets) * len(free) // len(self.keys), 1)

    def take(
        self, free: set[KeyHash], *, records_max: int, last: int, unread: Collection[int] = ()
    ) -> tuple[Sequence[int], Sequence[KeyHash]]:
        """Remove records of these keys in their order, up to the offset `last`, but none behind one of its key that is
        not read or delayed; returns their offsets and keys."""
        offsets, hashes = self.offsets, self.hashes
        limit = len(offsets) if offsets[-1] <= last else bisect_right(offsets, last)
        held_back = self.delayed.union(unread)
        if not held_back and len(free) == len(self.keys):
            cut = min(limit, records_max)
            self._keep(offsets[cut:], hashes[cut:])
            return offsets[:cut], hashes[:cut]
        is_free = self._with_held_back(free, held_back) if held_back else self._is_free(free)
        mask = _mask(is_free, limit, records_max)
        cut, rest = len(mask), mask.translate(_INVERTED)
        self._keep(
            [*compress(offsets, rest), *offsets[cut:]],
            [*compress(hashes, rest), *hashes[cut:]],
            self.keys - free if cut == len(offsets) and not held_back else None,
        )
        return [*compress(offsets, mask)], [*compress(hashes, mask)]

    def _is_free(self, free: set[KeyHash]) -> Iterator[bool]:
        return map(free.__contains__, self.hashes)

    def _with_held_back(self, free: set[KeyHash], held_back: Collection[int]) -> Iterator[bool]:
        keys_held_back: set[KeyHash] = set()
        for offset, key in zip(self.offsets, self.hashes, strict=True):
            if offset in held_back:
                if key is not None:
                    keys_held_back.add(key)
                yield False
            else:
                yield key in free and key not in keys_held_back

    def _keep(
        self, offsets: Sequence[int], hashes: Sequence[KeyHash], keys: set[KeyHash] | None = None
    ) -> None:
        self.offsets, self.hashes = offsets, hashes
        self.keys = set(hashes) if keys is None else keys


class Held(Struct, eq=False):
    """What a member has locked."""

    keys: set[KeyHash] = field(default_factory=set)
    records: int = 0
    _parts: list[tuple[Sequence[int], Sequence[KeyHash]]] = field(default_factory=list)
    # The rest is made when the member finishes some of its records, and not all.
    _by_offset: dict[int, KeyHash] = field(default_factory=dict)
    _left: Counter[KeyHash] = field(default_factory=Counter)

    def add(self, offsets: Sequence[int], hashes: Sequence[KeyHash], keys: set[KeyHash]) -> None:
        self._parts.append((offsets, hashes))
        self.records += len(offsets)
        self.keys |= keys

    def key(self, offset: int) -> KeyHash:
        self._index()
        return self._by_offset[offset]

    def remove(self, offsets: Iterable[int]) -> set[KeyHash]:
        """Returns the keys of which no records are left."""
        self._index()
        freed: set[KeyHash] = set()
        for offset in offsets:
            key = self._by_offset.pop(offset)
            self._left[key] -= 1
            if not self._left[key]:
                del self._left[key]
                freed.add(key)
            self.records -= 1
        self.keys -= freed
        return freed

    def before(self, offset: int) -> list[int]:
        self._index()
        return [each for each in self._by_offset if each < offset]

    def _index(self) -> None:
        for offsets, hashes in self._parts:
            self._by_offset.update(zip(offsets, hashes, strict=True))
            self._left.update(hashes)
        self._parts.clear()


def ranges_of(offsets: Sequence[int]) -> list[OffsetRange]:
    """The runs of consecutive offsets."""
    if not offsets or offsets[-1] - offsets[0] == len(offsets) - 1:
        return [OffsetRange(offsets[0], offsets[-1])] if offsets else []
    breaks = [index for index, (one, other) in enumerate(pairwise(offsets), 1) if other - one != 1]
    return [
        OffsetRange(offsets[begin], offsets[stop - 1])
        for begin, stop in pairwise(chain((0,), breaks, (len(offsets),)))
    ]


def _mask(is_free: Iterator[bool], count: int, records_max: int) -> bytes:
    """A byte for each record: 1 to take it. It ends where enough are found."""
    mask = bytearray()
    found = 0
    piece_records = _MASK_PIECE_RECORDS
    while len(mask) < count and found < records_max:
        piece = bytes(islice(is_free, min(piece_records, count - len(mask))))
        mask += piece
        found += piece.count(1)
        piece_records *= 2
    if found > records_max:
        del mask[[*compress(range(len(mask)), mask)][records_max] :]
    return bytes(mask)
