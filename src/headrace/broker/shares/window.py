"""One share group on one partition: the pure rules of which member gets which offsets, and in which state they are.

The window reaches from the first offset that is not done to the last that was ever delivered. Offsets after it
need no memory, so a backlog costs nothing. Nothing here waits, writes or reads a clock: time is passed in, in
monotonic milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from headrace.broker.configs.share_rules import Rules
from headrace.broker.rejections import RequestRejected
from headrace.broker.shares.key_order import MISSING, Ahead, KeyOrder, Missing
from headrace.broker.shares.spans import NO_MEMBER, OffsetRange, Span, Spans
from headrace.broker.shares.states import TRANSITIONS, RecordState, Trigger
from headrace.broker.shares.waiting_keys import ranges_of
from headrace.protocol.error_codes import ErrorCode

_not_held = partial(RequestRejected, ErrorCode.INVALID_RECORD_STATE)

LOG_END = 2**63 - 1

SPANS_MAX = 200_000
"""Spans that a window may have before it delivers nothing new: some 200 bytes each."""


BATCH_LOCKS_FACTOR_MAX = 10
"""How many times the limit of locks may be exceeded to finish a batch: with the default of 2,000, a batch of a megabyte
has as many small records."""


SLOW_MS_MIN = 100
SLOW_MS_PER_RECORD = 0.05
"""A member that locks records for longer is slow: then it pays to share the keys of a batch among members, although the
broker sends the batch to each of them. Members that are faster take all of it, one after the other. A client that does
nothing needs a tenth of this."""


class AcknowledgeType(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_FINISHING = {Trigger.ACCEPT: AcknowledgeType.ACCEPT, Trigger.SKIP: AcknowledgeType.GAP}

_ACQUIRED_FROM = {state: to for (state, trigger), to in TRANSITIONS.items() if trigger is Trigger.ACQUIRE}


class Acknowledgement(OffsetRange, frozen=True):
    type: AcknowledgeType


class LogBatch(OffsetRange, frozen=True):
    """A batch as the log has it."""

    is_hidden: bool = False
    """Control records, and records of an aborted transaction: they are not delivered."""


class BatchKeys(Struct, frozen=True):
    """The keys of a batch, in a group that is ordered by key."""

    first: int
    hashes: Sequence[Ahead]


class Run(OffsetRange, frozen=True):
    """Offsets that can be delivered; `last` is LOG_END if the log's end is the limit."""

    expected: int | None = None
    """How many of them can be delivered, if that is known: an estimate."""

    def expected_of(self, records: int) -> int:
        """The same for some of them."""
        return records if self.expected is None else -(-self.expected * records // self.records)


class Acquired(OffsetRange, frozen=True):
    delivery_count: int


class DeadRecords(OffsetRange, frozen=True):
    """Records that become dead letters."""

    delivery_count: int
    reason: str


class Window:
    def __init__(self, start_offset: int) -> None:
        self.spans = Spans(start_offset)
        # Nothing below can be delivered, so that locked spans are not searched again and again.
        self._available_from = start_offset
        # Changes to store, in their order; the last one of an offset counts.
        self._changes: list[Span] = []
        self._is_start_changed = True
        self.dead: list[DeadRecords] = []
        """The state writer takes them with the changes; their dead letters are written when those are durable."""
        self.redelivered_records = 0
        self.order: KeyOrder | None = None
        """In a group that is ordered by key."""
        # Whether what was acknowledged last took long.
        self._is_slow = False

    @classmethod
    def restored(cls, start_offset: int, spans: Iterable[Span]) -> Window:
        """From stored spans: what was locked is available again."""
        window = cls(start_offset)
        window.replay(spans)
        return window

    # Looking

    @property
    def start_offset(self) -> int:
        return self.spans.start

    @property
    def end_offset(self) -> int:
        return self.spans.end

    @property
    def locked_records(self) -> int:
        counts = self.spans.records_in
        return counts[RecordState.ACQUIRED] + counts[RecordState.ARCHIVING]

    @property
    def done_records(self) -> int:
        """Records after the start that are done; the window still has records before them."""
        counts = self.spans.records_in
        return counts[RecordState.ACKNOWLEDGED] + counts[RecordState.ARCHIVED]

    def room(self, rules: Rules) -> int:
        """How many more records may be locked."""
        return max(rules.locks_max - self.locked_records, 0)

    def whole_room(self, rules: Rules) -> int:
        """The same to finish a batch."""
        return max(rules.locks_max * BATCH_LOCKS_FACTOR_MAX - self.locked_records, 0)

    def next_event_ms(self) -> int | None:
        """When the next lock or delay ends, which `expire` does; None if there is none."""
        return min((span.until_ms for span in self.spans if span.until_ms), default=None)

    # Delivery

    def set_ordered(self, is_ordered: bool) -> bool:
        """Follow the group's config; whether records can be delivered. Order starts when no record is locked."""
        if not is_ordered:
            self.order = None
        elif self.order is None:
            if self.spans.records_in[RecordState.ACQUIRED]:
                return False
            self.order = KeyOrder(self.start_offset)
        return True

    def runs(self, now_ms: int, *, records_max: int, runs_max: int, whole_max: int = 0) -> list[Run]:
        """The spans to read for at most this many records, in the order of offsets. In a group that is ordered by key
        for as many as a batch has, up to `whole_max`."""
        if self.order is not None:
            return self._ordered_runs(self.order, records_max, runs_max, whole_max)
        found: list[Run] = []
        records = 0
        hint: int | None = None
        for span in self.spans.from_offset(self._available_from):
            if span.state is not RecordState.AVAILABLE:
                continue
            if hint is None:
                hint = span.first
            if span.until_ms > now_ms:
                continue
            if found and found[-1].last == span.first - 1:
                found[-1] = Run(found[-1].first, span.last)
            elif len(found) < runs_max:
                found.append(Run(span.first, span.last))
            else:
                break
            records += span.records
            if records >= records_max:
                break
        self._available_from = self.end_offset if hint is None else hint
        if records < records_max and len(found) < runs_max and len(self.spans) < SPANS_MAX:
            if found and found[-1].last == self.end_offset - 1:
                found[-1] = Run(found[-1].first, LOG_END)
            else:
                found.append(Run(self.end_offset, LOG_END))
        return found

    def _ordered_runs(self, order: KeyOrder, records_max: int, runs_max: int, whole_max: int) -> list[Run]:
        open_ranges = order.open_ranges(records_max, runs_max, whole_max=whole_max)
        found = [Run(one.first, one.last, one.expected) for one in open_ranges]
        is_enough = sum(one.expected for one in open_ranges) >= records_max or len(found) >= runs_max
        if not is_enough and order.may_search and len(self.spans) < SPANS_MAX:
            found.append(Run(order.decoded_to, LOG_END))
        return found

    def acquire(
        self,
        batches: Sequence[LogBatch],
        *,
        member_id: str,
        now_ms: int,
        rules: Rules,
        records_max: int,
        is_strict: bool = False,
        keys: Iterable[BatchKeys] = (),
        keys_from: int = 0,
        hungry_members: int = 0,
    ) -> list[Acquired]:
        """Lock what is available of these batches for a member.

        Both `records_max` and the group's limit of locks are exceeded only to finish a batch, and never with
        `is_strict`: to send a batch again for each of its parts would cost more than some records above the limits.
        In a group that is ordered by key, slow members leave their share of the keys to others that found none.
        """
        taken: list[Acquired] = []
        if self.order is not None:
            if self.order.decoded_to < keys_from:
                return []  # the order began again while the batches were read
            room = self.room(rules)
            records_max = min(records_max, room)
            for of_batch in keys:
                self._learn_keys(self.order, of_batch)
            sharers = hungry_members + 1 if self._is_slow else 1
            ranges = self.order.take(
                member_id,
                batches,
                records_max=records_max,
                whole_max=records_max if is_strict or sharers > 1 else self.whole_room(rules),
                sharers=sharers,
            )
            taken = self._lock_all(ranges, member_id, now_ms + rules.lock_ms)
            self._advance_start()
            return taken
        records = 0
        for batch in batches:
            room = self.room(rules)
            if records >= records_max or room == 0:
                break
            if is_strict:
                allowed = min(room, records_max - records)
            else:
                allowed = self.whole_room(rules)
            records += self._acquire_batch(batch, allowed, member_id, now_ms, rules, taken)
        self._advance_start()
        return taken

    def _acquire_batch(
        self,
        batch: LogBatch,
        allowed: int,
        member_id: str,
        now_ms: int,
        rules: Rules,
        taken: list[Acquired],
    ) -> int:
        if batch.first > self.end_offset:
            # Compaction removed the records in between.
            self._put(Span(self.end_offset, batch.first - 1, RecordState.ARCHIVED))
        if batch.last >= self.end_offset:
            self._extend(batch.last)
        records = 0
        for span in self.spans.overlapping(max(batch.first, self.start_offset), batch.last):
            if span.state is not RecordState.AVAILABLE or span.until_ms > now_ms:
                continue
            if batch.is_hidden:
                self._move(span, Trigger.SKIP)
                continue
            if records >= allowed:
                break
            part = replace(span, last=min(span.last, span.first + allowed - records - 1))
            self._lock(part, member_id, now_ms, rules, taken)
            records += part.records
        return records

    def _learn_keys(self, order: KeyOrder, batch: BatchKeys) -> None:
        """The keys of a batch, in the order of the log; what is known already is ignored, and a gap has no records."""
        known = order.decoded_to
        if batch.first > known:
            self._skip(OffsetRange(known, batch.first - 1))
        first = max(batch.first, known)
        hashes = batch.hashes[first - batch.first :] if first > batch.first else batch.hashes
        if not hashes:
            return
        keys, last = set(hashes), first + len(hashes) - 1
        order.skip_to(last + 1)
        if first >= self.end_offset and MISSING not in keys:
            order.add(range(first, last + 1), hashes, keys)  # type: ignore[arg-type]
            return
        # After a restart, or when a group becomes ordered, the window knows some of the records already.
        offsets, delayed = self._available(first, last)
        found = [(offset, hashes[offset - first]) for offset in offsets]
        for one in ranges_of([offset for offset, key in found if isinstance(key, Missing)]):
            self._skip(one)
        waiting = [(offset, key) for offset, key in found if not isinstance(key, Missing)]
        if waiting:
            of_waiting = [key for _, key in waiting]
            order.add([offset for offset, _ in waiting], of_waiting, set(of_waiting), delayed)

    def _available(self, first: int, last: int) -> tuple[list[int], list[int]]:
        """The offsets in a range that are neither locked nor done, and those of them whose delay is not over."""
        offsets: list[int] = []
        delayed: list[int] = []
        for span in self.spans.overlapping(first, last):
            if span.state is RecordState.AVAILABLE:
                offsets += range(span.first, span.last + 1)
                if span.until_ms:
                    delayed += range(span.first, span.last + 1)
        offsets += range(max(first, self.end_offset), last + 1)
        return offsets, delayed

    def _skip(self, missing: OffsetRange) -> None:
        """There is nothing to deliver."""
        if missing.last >= self.end_offset:
            self._extend(missing.last)
        for span in self.spans.overlapping(missing.first, missing.last):
            if span.state is RecordState.AVAILABLE:
                self._move(span, Trigger.SKIP)

    def _lock_all(self, ranges: Sequence[OffsetRange], member_id: str, until_ms: int) -> list[Acquired]:
        """Lock available records, in the order of offsets."""
        if ranges and ranges[-1].last >= self.end_offset:
            self._extend(ranges[-1].last)
        taken: list[Acquired] = []
        for span in self.spans.change(
            ranges,
            lambda first, last, old: Span(
                first, last, _ACQUIRED_FROM[old.state], old.delivery_count + 1, member_id, until_ms
            ),
        ):
            self._add_taken(taken, span)
        return taken

    def _add_taken(self, taken: list[Acquired], span: Span) -> None:
        count = span.delivery_count
        if count > 1:
            self.redelivered_records += span.records
        if taken and taken[-1].last == span.first - 1 and taken[-1].delivery_count == count:
            taken[-1] = Acquired(taken[-1].first, span.last, count)
        else:
            taken.append(Acquired(span.first, span.last, count))

    def _extend(self, last: int) -> None:
        new = Span(self.end_offset, last, RecordState.AVAILABLE)
        self.spans.put(new)
        self._available_from = min(self._available_from, new.first)

    def _lock(self, span: Span, member_id: str, now_ms: int, rules: Rules, taken: list[Acquired]) -> None:
        count, until_ms = span.delivery_count + 1, now_ms + rules.lock_ms
        self._move(span, Trigger.ACQUIRE, delivery_count=count, member_id=member_id, until_ms=until_ms)
        self._add_taken(taken, replace(span, delivery_count=count))

    # Acknowledging

    def acknowledge(
        self, acknowledgements: Sequence[Acknowledgement], *, member_id: str, now_ms: int, rules: Rules
    ) -> None:
        """Apply all of them, or none and raise RequestRejected if the member has not locked all of their records."""
        for one in acknowledgements:
            self._check_held(one, member_id)
        if acknowledgements and self.order is not None:
            first = acknowledgements[0].first
            locked_ms = now_ms - self.spans.touching(first, first)[0].until_ms + rules.lock_ms
            slow_ms = SLOW_MS_PER_RECORD * sum(one.records for one in acknowledgements)
            self._is_slow = locked_ms >= max(slow_ms, SLOW_MS_MIN)
        for trigger, kind in _FINISHING.items():
            self._finish([one for one in acknowledgements if one.type is kind], trigger, member_id)
        for one in acknowledgements:
            if one.type not in _FINISHING.values():
                for span in self.spans.overlapping(one.first, one.last):
                    self._apply(span, one.type, now_ms, rules)
        self._advance_start()

    def _check_held(self, one: Acknowledgement, member_id: str) -> None:
        if not self.start_offset <= one.first <= one.last < self.end_offset:
            raise _not_held(f"offsets {one.first} to {one.last} are not being delivered")
        for span in self.spans.touching(one.first, one.last):
            if span.state is not RecordState.ACQUIRED or span.member_id != member_id:
                raise _not_held(f"offsets {span.first} to {span.last} are not locked by this member")

    def _finish(self, ranges: Sequence[OffsetRange], trigger: Trigger, member_id: str) -> None:
        """Records that a member has locked are done."""
        state = TRANSITIONS[RecordState.ACQUIRED, trigger]
        self._changes += self.spans.change(ranges, lambda first, last, _: Span(first, last, state))
        if ranges and self.order is not None:
            self.order.finish(member_id, ranges)

    def _apply(self, span: Span, kind: AcknowledgeType, now_ms: int, rules: Rules) -> None:
        match kind:
            case AcknowledgeType.RELEASE:
                self._release(span, Trigger.RELEASE, now_ms, rules)
            case AcknowledgeType.REJECT:
                self._reject(span, rules, f"rejected by consumer {span.member_id}")
            case AcknowledgeType.RENEW:
                self._move(
                    span,
                    Trigger.RENEW,
                    delivery_count=span.delivery_count,
                    member_id=span.member_id,
                    until_ms=now_ms + rules.lock_ms,
                )

    # Without a request

    def expire(self, now_ms: int, rules: Rules) -> None:
        """End the locks and the delays that are over."""
        for span in [*self.spans]:
            if not span.until_ms or span.until_ms > now_ms:
                continue
            if span.state is RecordState.ACQUIRED:
                self._release(span, Trigger.EXPIRE, now_ms, rules)
            else:
                self.spans.put(replace(span, until_ms=0))
                if self.order is not None:
                    self.order.end_delays(span.first, span.last)
        self._advance_start()

    def abandon(self, member_id: str, now_ms: int, rules: Rules, *, is_orderly: bool) -> None:
        """Release all that a member has locked. If it left in order, its records are redelivered without a delay."""
        for span in [*self.spans]:
            if span.state is RecordState.ACQUIRED and span.member_id == member_id:
                self._release(span, Trigger.ABANDON, now_ms, rules, is_delayed=not is_orderly)
        self._advance_start()

    def letters_written(self, first: int, last: int) -> None:
        """The dead letters of these records are durable."""
        for span in self.spans.overlapping(first, last):
            if span.state is RecordState.ARCHIVING:
                self._move(span, Trigger.LETTER_WRITTEN)
        self._advance_start()

    def start_at(self, offset: int) -> None:
        """Retention or DeleteRecords has deleted the records before this offset."""
        if offset > self.start_offset:
            self.spans.cut_before(offset)
            if self.order is not None:
                self.order.start_at(offset)
            self._available_from = max(self._available_from, self.start_offset)
            self._is_start_changed = True
            self._advance_start()

    def _release(
        self, span: Span, trigger: Trigger, now_ms: int, rules: Rules, *, is_delayed: bool = True
    ) -> None:
        if self.order is None:
            self._release_span(span, trigger, now_ms, rules, is_delayed=is_delayed)
            return
        for offset in range(span.first, span.last + 1):
            one = replace(span, first=offset, last=offset)
            if self.order.is_behind(span.member_id, offset):
                # Nobody processed it, so this delivery does not count: the one before it is to blame.
                self._move(one, trigger, delivery_count=one.delivery_count - 1)
            else:
                self._release_span(one, trigger, now_ms, rules, is_delayed=is_delayed)

    def _release_span(
        self, span: Span, trigger: Trigger, now_ms: int, rules: Rules, *, is_delayed: bool
    ) -> None:
        if span.delivery_count >= rules.delivery_count_max:
            self._reject(span, rules, f"delivery limit of {rules.delivery_count_max} reached")
            return
        delay_ms = rules.delay_ms(span.delivery_count) if is_delayed else 0
        until_ms = now_ms + delay_ms if delay_ms else 0
        self._move(span, trigger, delivery_count=span.delivery_count, until_ms=until_ms)
        self._available_from = min(self._available_from, span.first)

    def _reject(self, span: Span, rules: Rules, reason: str) -> None:
        if rules.has_dead_letters:
            self._move(span, Trigger.ARCHIVE, delivery_count=span.delivery_count)
            self.dead.append(DeadRecords(span.first, span.last, span.delivery_count, reason))
        else:
            self._move(span, Trigger.REJECT)

    def _move(
        self,
        span: Span,
        trigger: Trigger,
        *,
        delivery_count: int = 0,
        member_id: str = NO_MEMBER,
        until_ms: int = 0,
    ) -> None:
        state = TRANSITIONS[span.state, trigger]
        moved = Span(span.first, span.last, state, delivery_count, member_id, until_ms)
        if state is RecordState.ACQUIRED:
            self.spans.put(moved)  # locks are not stored
        else:
            self._put(moved)
        if self.order is not None and span.state is RecordState.ACQUIRED:
            if state is RecordState.AVAILABLE:
                self.order.release(span.member_id, span.first, is_delayed=until_ms > 0)
            elif state is not RecordState.ACQUIRED:
                self.order.finish(span.member_id, (span,))

    def _put(self, span: Span) -> None:
        self.spans.put(span)
        self._changes.append(span)

    def _advance_start(self) -> None:
        """Move the start to the first record that is not done."""
        unfinished = self.spans.first_unfinished()
        if unfinished > self.start_offset:
            self.spans.cut_before(unfinished)
            if self.order is not None:
                self.order.skip_to(unfinished)
            self._available_from = max(self._available_from, unfinished)
            self._is_start_changed = True

    # Storing and loading

    @property
    def is_changed(self) -> bool:
        return self._is_start_changed or bool(self._changes)

    def changes(self) -> list[Span]:
        """Changes since `clear_changes`, of records that are still in the window."""
        start = self.start_offset
        return [
            span if span.first >= start else replace(span, first=start)
            for span in self._changes
            if span.last >= start
        ]

    def snapshot(self) -> list[Span]:
        """The whole state of the window without locks, which end with the broker."""
        return [
            Span(span.first, span.last, RecordState.AVAILABLE, span.delivery_count - 1)
            if span.state is RecordState.ACQUIRED
            else span
            for span in self.spans
        ]

    def clear_changes(self) -> None:
        """They are in the log, as an update or within a snapshot."""
        self._changes = []
        self._is_start_changed = False

    def replay(self, spans: Iterable[Span]) -> None:
        """Apply stored changes. Offsets without one were not acknowledged."""
        for span in spans:
            if span.last < self.start_offset:
                continue
            if span.first > self.end_offset:
                self.spans.put(Span(self.end_offset, span.first - 1, RecordState.AVAILABLE))
            first = max(span.first, self.start_offset)
            self.spans.put(replace(span, first=first, member_id=NO_MEMBER, until_ms=0))
        self._advance_start()

    def without_letters(self, rules: Rules) -> list[DeadRecords]:
        """Records without a known dead letter at the last stop of the broker."""
        limit_reached = f"delivery limit of {rules.delivery_count_max} reached"
        return [
            DeadRecords(
                span.first,
                span.last,
                span.delivery_count,
                limit_reached if span.delivery_count >= rules.delivery_count_max else "rejected by consumer",
            )
            for span in self.spans
            if span.state is RecordState.ARCHIVING
        ]
