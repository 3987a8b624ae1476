"""The order of keys in one share group on one partition: which records may be delivered without overtaking another.

A record is delivered when every earlier record of its key is done, or is delivered to the same member by the same
fetch. So all records in flight of a key are with one member, and were handed to it in order. Records without a key are
not ordered.

What a fetch locks is a Hold. No two holds have a key in common, so sets of keys do most of the work, and a fetch of
whole batches costs little more than reading their keys. Only records that wait for an earlier one are kept one by one:
those that were released, and those whose key was in flight when the frontier passed them. Records from the frontier on
were never looked at and need no memory. Pure: no log, no clock.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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


class KeyOrder:
    def __init__(self, start_offset: int) -> None:
        self.frontier = start_offset
        """The first offset that was not looked at."""
        self._ahead: list[Ahead] = []
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
    def decoded_to(self) -> int:
        """The first offset whose key is not known."""
        return self.frontier + len(self._ahead)

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
        missing = first - self.decoded_to
        if missing > 0:
            self._ahead += [MISSING] * missing
        self._ahead += hashes[-missing:] if missing < 0 else hashes

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

    def take_ahead(self, hold: Hold, last: int, records_max: int, *, is_delayed: bool = False) -> list[Taken]:
        """Move the frontier towards `last`, and lock at most `records_max` records; what happened to the offsets.

        Its caller repeats it until the frontier stays.
        """
        first = self.frontier
        ahead = self._ahead[: min(last - first + 1, records_max)]
        keys = set(ahead)
        keys.discard(None)
        is_free = keys.isdisjoint(self._busy) and self._lanes.keys().isdisjoint(keys)
        if is_free and MISSING not in keys and not is_delayed:
            del self._ahead[: len(ahead)]
            self.frontier += len(ahead)
            self._hold(hold, first, ahead, keys)  # type: ignore[arg-type]
            return [Taken(first, self.frontier - 1, is_locked=True)]
        return self._take_one_by_one(hold, ahead, is_delayed)

    def _take_one_by_one(self, hold: Hold, ahead: Sequence[Ahead], is_delayed: bool) -> list[Taken]:
        taken: list[Taken] = []
        run: list[KeyHash] = []
        first = self.frontier
        for key in ahead:
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
        del self._ahead[: self.frontier - first]
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
        del self._ahead[: max(offset - self.frontier, 0)]
        self.frontier = max(self.frontier, offset)

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
                self._make_ready(key)
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
        for key in hashes[begin:stop]:
            left[key] -= 1
            if key is not None and left[key] == 0:
                hold.keys.discard(key)
                self._free((key,))

    def _free(self, keys: Iterable[int]) -> None:
        self._busy.difference_update(keys)
        if self._lanes:
            for key in keys:
                if key in self._lanes:
                    self._make_ready(key)

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
        lane = self._lanes[key]
        if lane:
            heappush(self._ready, lane[0])
        else:
            del self._lanes[key]

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
