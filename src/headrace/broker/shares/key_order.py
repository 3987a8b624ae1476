"""The order of keys in one share group on one partition: which records may be delivered without overtaking another.

A record is delivered when every earlier record of its key is done, or is delivered to the same member by the same
fetch. So all records in flight of a key are with one member, and were handed to it in order. Records without a key are
not ordered.

What a fetch locks is a Hold. No two holds have a key in common, so sets of keys do most of the work, and a fetch of
whole batches costs little more than reading their keys. Batches of which every key is in flight wait as they are. Only
records that wait in front of the frontier are kept one by one: those that were released, and those whose key was in
flight when another record of their batch was delivered. Records whose keys were not read need no memory. Pure: no log,
no clock.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct, field

from headrace.broker.shares.spans import OffsetRange
from headrace.records.keys import KeyHash

WAITING_MAX = 100_000
"""Records that may wait for earlier ones of their keys before the frontier stops: some 200 bytes each. Then no further
keys are found."""


class Missing:
    """Takes the place of a key where there is nothing to deliver: compacted, aborted or a control record."""


MISSING = Missing()

Ahead = KeyHash | Missing


class Hold(Struct, eq=False):
    """What one fetch has locked for a member."""

    keys: set[int] = field(default_factory=set)
    records: int = 0
    hashes: list[Sequence[KeyHash]] = field(default_factory=list)
    left: Counter[KeyHash] | None = None
    """How many records of each key are not acknowledged; None until a part of the hold is."""


class Segment(OffsetRange, frozen=True, eq=False):
    """Consecutive locked records of a hold, with the hash of each key."""

    hashes: Sequence[KeyHash]
    hold: Hold


class Chunk(Struct, eq=False):
    """The keys of a batch that the frontier has not passed."""

    first: int
    hashes: Sequence[Ahead]
    keys: set[Any]
    """Without that of records that have none."""
    has_others: bool
    """Whether it has records without a key, or missing ones."""
    is_blocked: bool = False
    """Whether each of its keys is in flight, waits, or is in a batch before it."""

    @property
    def end(self) -> int:
        return self.first + len(self.hashes)

    @classmethod
    def of(cls, first: int, hashes: Sequence[Ahead]) -> Chunk:
        keys: set[Any] = set(hashes)
        has_others = None in keys or MISSING in keys
        keys.discard(None)
        return cls(first, hashes, keys, has_others)


class KeyOrder:
    def __init__(self, start_offset: int) -> None:
        self.frontier = start_offset
        """The first offset that was not looked at."""
        # Batches from the frontier on whose keys are known.
        self._ahead: list[Chunk] = []
        self.freed = 0
        """How often keys became free."""
        # Keys of locked records.
        self._busy: set[int] = set()
        self._segments: list[Segment] = []
        self._segment_firsts: list[int] = []
        # Records before the frontier that are neither locked nor done, and those of each key in their order.
        self._waiting: dict[int, KeyHash] = {}
        self._lanes: dict[int, list[int]] = {}
        self._delayed: set[int] = set()
        # A heap with every waiting record that may be delivered; others in it are skipped when they come up.
        self._ready: list[int] = []

    # Looking

    @property
    def waiting_records(self) -> int:
        return len(self._waiting)

    @property
    def may_advance(self) -> bool:
        return len(self._waiting) < WAITING_MAX

    @property
    def may_search(self) -> bool:
        return (
            len(self._waiting) + self.decoded_to - self.frontier < WAITING_MAX
            or self._first_open() is not None
        )

    @property
    def decoded_to(self) -> int:
        """The first offset whose key is not known."""
        return self._ahead[-1].end if self._ahead else self.frontier

    @property
    def search_offset(self) -> int:
        """Where to read on for records that may be delivered."""
        chunk = self._first_open()
        return self.decoded_to if chunk is None else chunk.first

    @property
    def has_ready(self) -> bool:
        while self._ready and not self._is_ready(self._ready[0]):
            heappop(self._ready)
        return bool(self._ready)

    def candidates(self, records_max: int) -> list[int]:
        """Waiting records that one fetch could lock, in the order of offsets."""
        found: list[int] = []
        heads: list[int] = []
        for offset in self._walk(heads, lambda _: True):
            found.append(offset)
            if len(found) >= records_max:
                break
        self._restore(heads)
        return found

    def is_behind(self, offset: int) -> bool:
        """Whether a locked record has an earlier one of its key that waits: nobody processed it, then."""
        for segment, index, _ in self._locked(offset, offset):
            key = segment.hashes[index]
            return key is not None and key in self._lanes and self._lanes[key][0] < offset
        return False

    # Keys

    def add_keys(self, first: int, hashes: Sequence[Ahead]) -> None:
        """The keys of a batch, in the order of the log; what is known already is ignored, and a gap has no records."""
        known = self.decoded_to
        if first > known:
            self._ahead.append(Chunk.of(known, [MISSING] * (first - known)))
        elif first < known:
            first, hashes = known, hashes[known - first :]
        if hashes:
            self._ahead.append(Chunk.of(first, hashes))

    # Locking

    def take_waiting(self, hold: Hold, covered: Sequence[OffsetRange], records_max: int) -> list[OffsetRange]:
        """Lock waiting records within these ranges, at most `records_max`."""
        firsts = [each.first for each in covered]

        def is_covered(offset: int) -> bool:
            index = bisect_right(firsts, offset) - 1
            return index >= 0 and offset <= covered[index].last

        heads: list[int] = []
        taken: list[int] = []
        if records_max > 0:
            for offset in self._walk(heads, is_covered):
                taken.append(offset)
                if len(taken) >= records_max:
                    break
        runs: list[OffsetRange] = []
        hashes: list[list[KeyHash]] = []
        for offset in taken:
            key = self._waiting.pop(offset)
            if key is not None:
                self._leave_lane(key)
            if runs and runs[-1].last == offset - 1:
                runs[-1] = OffsetRange(runs[-1].first, offset)
                hashes[-1].append(key)
            else:
                runs.append(OffsetRange(offset, offset))
                hashes.append([key])
        self._restore(heads)
        for run, of_run in zip(runs, hashes, strict=True):
            self._hold(hold, run.first, of_run, set(of_run))
        return runs

    def take_ahead(self, hold: Hold, covered: Sequence[OffsetRange], records_max: int) -> list[Taken]:
        """Lock at most `records_max` records ahead of the frontier, within these ranges, and move the frontier behind
        them; what happened to the offsets. The caller repeats it until the frontier stays.
        """
        chunk = self._first_open()
        if chunk is None:
            return []
        last = chunk.end - 1
        if chunk.keys != {MISSING}:
            index = bisect_right(covered, chunk.first, key=lambda each: each.first) - 1
            if index < 0 or covered[index].last < chunk.first:
                return []
            last = min(last, covered[index].last)
        while self._ahead[0] is not chunk:
            blocked = self._ahead[0].hashes[: max(WAITING_MAX - len(self._waiting), 0)]
            if not blocked:
                return []
            for offset, key in enumerate(blocked, self.frontier):
                self._wait(offset, key, is_delayed=False)  # type: ignore[arg-type]
            self._pass(len(blocked))
        return self.take_next(hold, last, records_max)

    def take_next(self, hold: Hold, last: int, records_max: int, *, is_delayed: bool = False) -> list[Taken]:
        """The same from the frontier on: up to `last`, and not behind its batch."""
        part, keys = self._ahead[0].hashes, self._ahead[0].keys
        count = min(last - self.frontier + 1, records_max)
        if count < len(part):
            part = part[:count]
            keys = set(part)
            keys.discard(None)
        is_free = keys.isdisjoint(self._busy) and self._lanes.keys().isdisjoint(keys)
        if not is_free or MISSING in keys or is_delayed:
            return self._take_one_by_one(hold, part, is_delayed=is_delayed)
        first = self.frontier
        self._pass(len(part))
        self._hold(hold, first, part, keys)  # type: ignore[arg-type]
        return [Taken(first, self.frontier - 1, is_locked=True)]

    def _first_open(self) -> Chunk | None:
        """The first batch ahead with a record that may be delivered."""
        for chunk in self._ahead:
            if chunk.is_blocked:
                continue
            if not chunk.has_others and not (chunk.keys - self._busy).difference(self._lanes):
                chunk.is_blocked = True
                continue
            return chunk
        return None

    def _take_one_by_one(self, hold: Hold, hashes: Sequence[Ahead], *, is_delayed: bool) -> list[Taken]:
        taken: list[Taken] = []
        run: list[KeyHash] = []
        first = self.frontier
        for key in hashes:
            if isinstance(key, Missing):
                self._end_run(hold, run, taken)
                _append_missing(taken, self.frontier)
            elif not is_delayed and key not in self._busy and key not in self._lanes:
                run.append(key)
            elif self.may_advance:
                self._end_run(hold, run, taken)
                self._wait(self.frontier, key, is_delayed=is_delayed)
            else:
                break
            self.frontier += 1
        self._end_run(hold, run, taken)
        passed, self.frontier = self.frontier - first, first
        self._pass(passed)
        return taken

    def _end_run(self, hold: Hold, run: list[KeyHash], taken: list[Taken]) -> None:
        """Lock the records before the frontier that were found free."""
        if run:
            first = self.frontier - len(run)
            self._hold(hold, first, [*run], set(run))
            taken.append(Taken(first, self.frontier - 1, is_locked=True))
            run.clear()

    def skip_to(self, offset: int) -> None:
        """Records up to this offset are done, or deleted."""
        if offset > self.frontier:
            self._pass(offset - self.frontier)

    def _pass(self, records: int) -> None:
        """Move the frontier."""
        self.frontier += records
        while self._ahead and self._ahead[0].end <= self.frontier:
            del self._ahead[0]
        if self._ahead and self._ahead[0].first < self.frontier:
            rest = self._ahead[0]
            self._ahead[0] = Chunk.of(self.frontier, rest.hashes[self.frontier - rest.first :])

    def lock(self, hold: Hold) -> None:
        """The hold is complete: nothing of its keys is delivered until they are acknowledged."""
        self._busy |= hold.keys

    def _hold(self, hold: Hold, first: int, hashes: Sequence[KeyHash], keys: set[Any]) -> None:
        keys.discard(None)
        hold.keys |= keys
        hold.hashes.append(hashes)
        hold.records += len(hashes)
        self._put_segments(
            bisect_right(self._segment_firsts, first),
            0,
            [Segment(first, first + len(hashes) - 1, hashes, hold)] if hashes else [],
        )

    def _put_segments(self, index: int, count: int, segments: Sequence[Segment]) -> None:
        """Replace so many segments."""
        self._segments[index : index + count] = segments
        self._segment_firsts[index : index + count] = [each.first for each in segments]

    # Unlocking

    def finish(self, first: int, last: int) -> None:
        """These records were locked, and are never delivered again."""
        for segment, begin, stop in self._locked(first, last):
            self._unlock(segment, begin, stop)

    def release(self, offset: int, *, is_delayed: bool) -> None:
        """A locked record waits again."""
        for segment, begin, stop in self._locked(offset, offset):
            key = segment.hashes[begin]
            self._wait(offset, key, is_delayed=is_delayed)
            self._unlock(segment, begin, stop)

    def end_delays(self, first: int, last: int) -> None:
        for offset in range(first, last + 1):
            if offset in self._delayed:
                self._delayed.discard(offset)
                heappush(self._ready, offset)

    def start_at(self, offset: int) -> None:
        """Records before this offset are deleted."""
        for old in [each for each in self._waiting if each < offset]:
            key = self._waiting.pop(old)
            self._delayed.discard(old)
            if key is not None:
                self._lanes[key].remove(old)
                if not self._lanes[key]:
                    del self._lanes[key]
                if key not in self._busy:
                    self._free((key,))
        if self._segments and self._segments[0].first < offset:
            self.finish(self._segments[0].first, offset - 1)
        self.skip_to(offset)

    def _locked(self, first: int, last: int) -> Iterator[tuple[Segment, int, int]]:
        """The segments in a range, each with the part of it that is in the range."""
        index = max(bisect_right(self._segment_firsts, first) - 1, 0)
        for segment in self._segments[index : bisect_right(self._segment_firsts, last)]:
            if segment.last >= first:
                begin, stop = max(first - segment.first, 0), min(last, segment.last) - segment.first + 1
                yield segment, begin, stop

    def _unlock(self, segment: Segment, begin: int, stop: int) -> None:
        hold, hashes = segment.hold, segment.hashes
        rest = []
        if begin:
            rest.append(Segment(segment.first, segment.first + begin - 1, hashes[:begin], hold))
        if stop < len(hashes):
            rest.append(Segment(segment.first + stop, segment.last, hashes[stop:], hold))
        self._put_segments(bisect_right(self._segment_firsts, segment.first) - 1, 1, rest)
        hold.records -= stop - begin
        if hold.records == 0:
            self._free(hold.keys)
            return
        if hold.left is None:
            hold.left = Counter()
            for each in hold.hashes:
                hold.left.update(each)
        left = hold.left
        freed = []
        for key in hashes[begin:stop]:
            left[key] -= 1
            if key is not None and left[key] == 0:
                freed.append(key)
        if freed:
            hold.keys.difference_update(freed)
            self._free(freed)

    def _free(self, keys: Collection[int]) -> None:
        self.freed += 1
        self._busy.difference_update(keys)
        ahead = set(keys)
        if self._lanes:
            for key in keys:
                if key in self._lanes:
                    self._make_ready(key)
                    ahead.discard(key)
        for chunk in self._ahead:
            if not ahead:
                break
            if not chunk.keys.isdisjoint(ahead):
                chunk.is_blocked = False
                ahead -= chunk.keys

    # Waiting records

    def _wait(self, offset: int, key: KeyHash, *, is_delayed: bool) -> None:
        self._waiting[offset] = key
        if is_delayed:
            self._delayed.add(offset)
        if key is not None:
            insort(self._lanes.setdefault(key, []), offset)
        if not is_delayed and (key is None or key not in self._busy):
            heappush(self._ready, offset)

    def _leave_lane(self, key: int) -> None:
        lane = self._lanes[key]
        del lane[0]
        if not lane:
            del self._lanes[key]

    def _make_ready(self, key: int) -> None:
        """Put the first record of a key into the heap."""
        heappush(self._ready, self._lanes[key][0])

    def _is_ready(self, offset: int) -> bool:
        if offset not in self._waiting or offset in self._delayed:
            return False
        key = self._waiting[offset]
        return key is None or (key not in self._busy and self._lanes[key][0] == offset)

    def _walk(self, heads: list[int], is_wanted: Callable[[int], bool]) -> Iterator[int]:
        """Records that are ready, and those behind them in their lanes, by offset. `heads` gets what left the heap."""
        behind: list[tuple[int, int, int]] = []
        while self.has_ready or behind:
            if behind and (not self._ready or behind[0][0] < self._ready[0]):
                offset, key, place = heappop(behind)
                if offset in self._delayed:
                    continue
            else:
                offset = heappop(self._ready)
                if heads and heads[-1] == offset:
                    continue  # it was in the heap twice
                heads.append(offset)
                of_lane = self._waiting[offset]
                if of_lane is None:
                    if is_wanted(offset):
                        yield offset
                    continue
                key, place = of_lane, 0
            if not is_wanted(offset):
                continue
            lane = self._lanes[key]
            if place + 1 < len(lane):
                heappush(behind, (lane[place + 1], key, place + 1))
            yield offset

    def _restore(self, heads: Iterable[int]) -> None:
        """Put records back into the heap that are still to be delivered."""
        for offset in heads:
            if offset in self._waiting:
                heappush(self._ready, offset)


class Taken(OffsetRange, frozen=True):
    is_locked: bool
    """Otherwise there is nothing to deliver."""


def _append_missing(taken: list[Taken], offset: int) -> None:
    if taken and taken[-1].last == offset - 1 and not taken[-1].is_locked:
        taken[-1] = Taken(taken[-1].first, offset, is_locked=False)
    else:
        taken.append(Taken(offset, offset, is_locked=False))
