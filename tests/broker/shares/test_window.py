"""The rules of one share group on one partition, against a model that keeps every record by itself."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.broker.configs.share_rules import Rules
from headrace.broker.rejections import RequestRejected
from headrace.broker.shares.states import FINAL_STATES, RecordState
from headrace.broker.shares.window import (
    BATCH_LOCKS_FACTOR_MAX,
    LOG_END,
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    LogBatch,
    Run,
    Window,
)

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
RENEW, GAP = AcknowledgeType.RENEW, AcknowledgeType.GAP


def acquire(
    window: Window,
    first: int,
    last: int,
    *,
    member: str = "a",
    now_ms: int = 0,
    rules: Rules | None = None,
    records_max: int = 500,
    is_strict: bool = False,
) -> list[Acquired]:
    return window.acquire(
        [LogBatch(first, last)],
        member_id=member,
        now_ms=now_ms,
        rules=rules or Rules(),
        records_max=records_max,
        is_strict=is_strict,
    )


def acknowledge(
    window: Window,
    first: int,
    last: int,
    kind: AcknowledgeType,
    *,
    member: str = "a",
    now_ms: int = 0,
    rules: Rules | None = None,
) -> None:
    window.acknowledge(
        [Acknowledgement(first, last, kind)], member_id=member, now_ms=now_ms, rules=rules or Rules()
    )


def test_two_members_never_hold_the_same_record() -> None:
    window = Window(0)
    assert acquire(window, 0, 9, member="a", records_max=4, is_strict=True) == [Acquired(0, 3, 1)]
    assert acquire(window, 0, 9, member="b") == [Acquired(4, 9, 1)]
    assert acquire(window, 0, 9, member="c") == []


def test_whole_batch_is_delivered_if_it_exceeds_the_request() -> None:
    window = Window(0)
    assert acquire(window, 0, 9, records_max=4) == [Acquired(0, 9, 1)]


def test_locks_are_bounded_also_within_a_batch() -> None:
    window = Window(0)
    rules = Rules(locks_max=10)
    assert acquire(window, 0, 999, rules=rules) == [Acquired(0, 99, 1)]
    assert window.room(rules) == 0
    assert acquire(window, 0, 999, member="b", rules=rules) == []


def test_strict_fetch_keeps_the_limit_of_locks() -> None:
    window = Window(0)
    assert acquire(window, 0, 99, rules=Rules(locks_max=10), is_strict=True) == [Acquired(0, 9, 1)]


def test_accepted_record_moves_the_start_and_is_never_delivered_again() -> None:
    window = Window(0)
    acquire(window, 0, 9)
    acknowledge(window, 0, 4, ACCEPT)
    assert (window.start_offset, window.end_offset) == (5, 10)
    assert window.runs(0, records_max=500, runs_max=8) == [Run(10, LOG_END)]


def test_locked_first_record_does_not_block_later_ones() -> None:
    """Thousands are done behind one that is stuck: the window is two pieces, and there is room for more."""
    window = Window(0)
    acquire(window, 0, 0, member="stuck")
    for first in range(1, 50_001, 500):
        assert acquire(window, first, first + 499) == [Acquired(first, first + 499, 1)]
        acknowledge(window, first, first + 499, ACCEPT)
    assert window.start_offset == 0
    assert len(window.spans) == 2
    assert window.locked_records == 1


def test_released_record_is_redelivered_with_a_higher_count() -> None:
    window = Window(0)
    acquire(window, 0, 9)
    acknowledge(window, 3, 3, RELEASE)
    assert window.runs(0, records_max=1, runs_max=8) == [Run(3, 3)]
    assert acquire(window, 0, 9, member="b") == [Acquired(3, 3, 2)]


def test_lock_expires_at_its_timeout_and_not_before() -> None:
    window, rules = Window(0), Rules(lock_ms=1000)
    acquire(window, 0, 0, now_ms=5, rules=rules)
    window.expire(1004, rules)
    assert window.locked_records == 1
    assert window.next_event_ms() == 1005
    window.expire(1005, rules)
    assert window.locked_records == 0
    assert acquire(window, 0, 0, member="b", now_ms=1005, rules=rules) == [Acquired(0, 0, 2)]


def test_renewed_lock_lasts_longer() -> None:
    window, rules = Window(0), Rules(lock_ms=1000)
    acquire(window, 0, 0, rules=rules)
    acknowledge(window, 0, 0, RENEW, now_ms=900, rules=rules)
    window.expire(1800, rules)
    acknowledge(window, 0, 0, ACCEPT, now_ms=1800, rules=rules)
    assert window.start_offset == 1


def test_stale_acknowledgement_is_rejected_and_changes_nothing() -> None:
    window, rules = Window(0), Rules(lock_ms=1000)
    acquire(window, 0, 9, rules=rules)
    window.expire(1000, rules)
    acquire(window, 0, 4, member="b", now_ms=1000, rules=rules)
    before = [*window.spans]
    for first, last in ((0, 4), (5, 9), (4, 5), (20, 20)):
        with pytest.raises(RequestRejected, match="offsets"):
            acknowledge(window, first, last, ACCEPT, now_ms=1000, rules=rules)
    with pytest.raises(RequestRejected, match="offsets"):
        window.acknowledge(
            [Acknowledgement(0, 0, ACCEPT), Acknowledgement(7, 7, ACCEPT)],
            member_id="b",
            now_ms=1000,
            rules=rules,
        )
    assert [*window.spans] == before


def test_accepting_twice_is_rejected() -> None:
    window = Window(0)
    acquire(window, 0, 9)
    acknowledge(window, 0, 0, ACCEPT)
    with pytest.raises(RequestRejected, match="offsets"):
        acknowledge(window, 0, 0, ACCEPT)


def test_record_past_its_delivery_limit_is_archived_and_later_ones_are_delivered() -> None:
    window, rules = Window(0), Rules(delivery_count_max=3)
    for count in (1, 2, 3):
        assert acquire(window, 0, 0, rules=rules) == [Acquired(0, 0, count)]
        acknowledge(window, 0, 0, RELEASE, rules=rules)
    assert window.start_offset == 1
    assert window.dead == []


def test_dead_record_stays_until_its_letter_is_written() -> None:
    window, rules = Window(0), Rules(delivery_count_max=1, has_dead_letters=True)
    acquire(window, 0, 2, rules=rules)
    acknowledge(window, 0, 0, REJECT, rules=rules)
    acknowledge(window, 1, 1, RELEASE, rules=rules)
    acknowledge(window, 2, 2, ACCEPT, rules=rules)
    assert [(one.first, one.last, one.delivery_count) for one in window.dead] == [(0, 0, 1), (1, 1, 1)]
    assert [one.reason for one in window.dead] == [
        "rejected by consumer a",
        "delivery limit of 1 reached",
    ]
    assert window.start_offset == 0
    assert acquire(window, 0, 2, rules=rules) == []
    window.letters_written(0, 1)
    assert window.start_offset == 3


def test_delay_grows_with_every_delivery_up_to_a_bound() -> None:
    rules = Rules(backoff_ms=100, backoff_multiplier=2.0, backoff_ms_max=350, delivery_count_max=9)
    assert [rules.delay_ms(count) for count in (1, 2, 3, 4)] == [100, 200, 350, 350]
    window = Window(0)
    acquire(window, 0, 0, rules=rules)
    acknowledge(window, 0, 0, RELEASE, rules=rules)
    assert acquire(window, 0, 0, now_ms=99, rules=rules) == []
    assert window.next_event_ms() == 100
    assert acquire(window, 0, 0, now_ms=100, rules=rules) == [Acquired(0, 0, 2)]


def test_spans_merge_after_their_delay() -> None:
    rules = Rules(backoff_ms=100)
    window = Window(0)
    acquire(window, 0, 9, rules=rules)
    for offset in range(10):
        acknowledge(window, offset, offset, RELEASE, now_ms=offset, rules=rules)
    assert len(window.spans) == 10
    window.expire(200, rules)
    assert len(window.spans) == 1
    assert window.next_event_ms() is None


def test_records_of_a_member_that_left_in_order_are_redelivered_without_delay() -> None:
    rules = Rules(backoff_ms=100)
    window = Window(0)
    acquire(window, 0, 4, member="a", rules=rules)
    acquire(window, 5, 9, member="b", rules=rules)
    window.abandon("a", 0, rules, is_orderly=True)
    window.abandon("b", 0, rules, is_orderly=False)
    assert acquire(window, 0, 9, member="c", now_ms=1, rules=rules) == [Acquired(0, 4, 2)]


def test_hidden_and_missing_offsets_are_skipped() -> None:
    window = Window(0)
    taken = window.acquire(
        [LogBatch(0, 4), LogBatch(5, 5, is_hidden=True), LogBatch(9, 10)],
        member_id="a",
        now_ms=0,
        rules=Rules(),
        records_max=500,
    )
    assert taken == [Acquired(0, 4, 1), Acquired(9, 10, 1)]
    acknowledge(window, 0, 4, ACCEPT)
    assert window.start_offset == 9


def test_retention_moves_the_start_of_the_window() -> None:
    window = Window(0)
    acquire(window, 0, 9)
    window.start_at(5)
    assert (window.start_offset, window.locked_records) == (5, 5)
    with pytest.raises(RequestRejected, match="offsets"):
        acknowledge(window, 4, 4, ACCEPT)


def test_locked_records_take_memory_by_spans_and_not_by_number() -> None:
    window = Window(0)
    rules = Rules(locks_max=1_000_000)
    for first in range(0, 100_000, 500):
        acquire(window, first, first + 499, rules=rules)
    assert (window.locked_records, len(window.spans)) == (100_000, 1)


# Against the model


@dataclass
class OneRecord:
    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    member: str = ""
    until_ms: int = 0


MEMBERS = ("a", "b", "c")
LOG_RECORDS = 60


class WindowMachine(RuleBasedStateMachine):
    """A small log, some members, and time. What is stored is replayed into a second window."""

    @initialize(
        batch_sizes=st.lists(st.integers(1, 12), min_size=1, max_size=12),
        hidden=st.sets(st.integers(0, 11)),
        locks_max=st.sampled_from((3, 10, 1000)),
        limit=st.integers(1, 3),
        dead=st.booleans(),
        backoff_ms=st.sampled_from((0, 15)),
    )
    def start(
        self,
        batch_sizes: list[int],
        hidden: set[int],
        locks_max: int,
        limit: int,
        dead: bool,
        backoff_ms: int,
    ) -> None:
        self.group_rules = Rules(
            lock_ms=100,
            delivery_count_max=limit,
            locks_max=locks_max,
            has_dead_letters=dead,
            backoff_ms=backoff_ms,
        )
        self.batches: list[LogBatch] = []
        for number, size in enumerate(batch_sizes):
            first = self.batches[-1].last + 1 if self.batches else 0
            self.batches.append(LogBatch(first, first + size - 1, number in hidden))
        self.window = Window(0)
        self.written = Window(0)
        self.model: dict[int, OneRecord] = {}
        self.now_ms = 1000
        self.buried: list[int] = []

    @property
    def log_end(self) -> int:
        return self.batches[-1].last + 1

    @rule(member=st.sampled_from(MEMBERS), records_max=st.integers(1, 20), is_strict=st.booleans())
    def fetch(self, member: str, records_max: int, is_strict: bool) -> None:
        runs = self.window.runs(self.now_ms, records_max=records_max, runs_max=4)
        read = [
            batch
            for batch in self.batches
            if any(batch.last >= run.first and batch.first <= run.last for run in runs)
        ]
        taken = self.window.acquire(
            read,
            member_id=member,
            now_ms=self.now_ms,
            rules=self.group_rules,
            records_max=records_max,
            is_strict=is_strict,
        )
        for batch in read:
            for offset in range(batch.first, batch.last + 1):
                if offset < self.window.end_offset:
                    self.model.setdefault(offset, OneRecord())
        if taken or self.window.room(self.group_rules) or not read:
            self._hide(read)
        given = [offset for one in taken for offset in range(one.first, one.last + 1)]
        assert len(set(given)) == len(given)
        assert not is_strict or len(given) <= records_max
        counts = {offset: one.delivery_count for one in taken for offset in range(one.first, one.last + 1)}
        for offset in given:
            record = self.model[offset]
            assert record.state is RecordState.AVAILABLE
            assert record.until_ms <= self.now_ms
            record.state, record.member = RecordState.ACQUIRED, member
            record.count += 1
            record.until_ms = self.now_ms + self.group_rules.lock_ms
            assert counts[offset] == record.count
        locked = [r for r in self.model.values() if r.state in (RecordState.ACQUIRED, RecordState.ARCHIVING)]
        assert len(locked) <= self.group_rules.locks_max * BATCH_LOCKS_FACTOR_MAX

    def _hide(self, read: list[LogBatch]) -> None:
        """Offsets of hidden batches that the window passed are done; which of them is for the window to choose."""
        done = {
            offset
            for span in self.window.spans
            if span.state is RecordState.ARCHIVED
            for offset in range(span.first, span.last + 1)
        }
        for batch in read:
            for offset in range(batch.first, batch.last + 1):
                passed = offset < self.window.start_offset or offset in done
                if batch.is_hidden and offset in self.model and passed:
                    self.model[offset] = OneRecord(RecordState.ARCHIVED)

    @rule(
        member=st.sampled_from(MEMBERS),
        first=st.integers(0, LOG_RECORDS),
        length=st.integers(1, 12),
        kind=st.sampled_from(AcknowledgeType),
    )
    def acknowledge(self, member: str, first: int, length: int, kind: AcknowledgeType) -> None:
        wanted = [Acknowledgement(first, first + length - 1, kind)]
        held = all(
            (record := self.model.get(offset)) is not None
            and record.state is RecordState.ACQUIRED
            and record.member == member
            for offset in range(first, first + length)
        )
        if not held:
            with pytest.raises(RequestRejected, match="offsets"):
                self.window.acknowledge(wanted, member_id=member, now_ms=self.now_ms, rules=self.group_rules)
            return
        self.window.acknowledge(wanted, member_id=member, now_ms=self.now_ms, rules=self.group_rules)
        for offset in range(first, first + length):
            self._acknowledged(self.model[offset], kind)

    @rule(member=st.sampled_from(MEMBERS))
    def accept_all(self, member: str) -> None:
        held = [
            offset
            for offset, record in self.model.items()
            if record.state is RecordState.ACQUIRED and record.member == member
        ]
        for offset in held:
            self.acknowledge(member, offset, 1, ACCEPT)

    def _acknowledged(self, record: OneRecord, kind: AcknowledgeType) -> None:
        if kind is RENEW:
            record.until_ms = self.now_ms + self.group_rules.lock_ms
        elif kind is RELEASE:
            self._back(record, is_delayed=True)
        elif kind is REJECT:
            self._gone(record)
        else:
            record.state = RecordState.ACKNOWLEDGED if kind is ACCEPT else RecordState.ARCHIVED

    def _back(self, record: OneRecord, *, is_delayed: bool) -> None:
        if record.count >= self.group_rules.delivery_count_max:
            self._gone(record)
            return
        delay_ms = self.group_rules.delay_ms(record.count) if is_delayed else 0
        record.state, record.member = RecordState.AVAILABLE, ""
        record.until_ms = self.now_ms + delay_ms if delay_ms else 0

    def _gone(self, record: OneRecord) -> None:
        record.state = RecordState.ARCHIVING if self.group_rules.has_dead_letters else RecordState.ARCHIVED

    @rule(elapsed_ms=st.sampled_from((1, 20, 99, 100, 150)))
    def time_passes(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms
        self.window.expire(self.now_ms, self.group_rules)
        for record in self.model.values():
            if record.state is RecordState.ACQUIRED and record.until_ms <= self.now_ms:
                self._back(record, is_delayed=True)

    @rule(member=st.sampled_from(MEMBERS), is_orderly=st.booleans())
    def leave(self, member: str, is_orderly: bool) -> None:
        self.window.abandon(member, self.now_ms, self.group_rules, is_orderly=is_orderly)
        for record in self.model.values():
            if record.state is RecordState.ACQUIRED and record.member == member:
                self._back(record, is_delayed=not is_orderly)

    @rule()
    def write_dead_letters(self) -> None:
        for records in self.window.dead:
            self.window.letters_written(records.first, records.last)
            for offset in range(records.first, records.last + 1):
                assert self.model[offset].state is RecordState.ARCHIVING
                self.model[offset].state = RecordState.ARCHIVED
                self.buried.append(offset)
        self.window.dead.clear()
        assert len(set(self.buried)) == len(self.buried)

    @rule()
    def restart(self) -> None:
        """A crash after everything was written down: only locks are lost."""
        self._write_down()
        snapshot = Window.restored(self.window.start_offset, self.window.snapshot())
        assert snapshot.start_offset == self.written.start_offset
        for window in (snapshot, self.written):
            for span in window.spans:
                for offset in range(span.first, span.last + 1):
                    record = self.model[offset]
                    if record.state is RecordState.ACQUIRED:
                        assert span.state is RecordState.AVAILABLE
                        assert span.delivery_count == record.count - 1
                    else:
                        assert (span.state in FINAL_STATES) == (record.state in FINAL_STATES)
                        assert span.state in FINAL_STATES or span.delivery_count == record.count

    @rule()
    def _write_down(self) -> None:
        changes = self.window.changes()
        self.window.clear_changes()
        self.written.start_at(self.window.start_offset)
        for span in changes:
            self.written.replay([span])

    @invariant()
    def window_says_what_the_model_says(self) -> None:
        if not hasattr(self, "window"):
            return
        offset = self.window.start_offset
        for span in self.window.spans:
            assert span.first == offset, "a hole, or an overlap"
            for offset in range(span.first, span.last + 1):
                record = self.model[offset]
                assert record.state is span.state or ({record.state, span.state} <= FINAL_STATES)
                if span.state is RecordState.ACQUIRED:
                    assert (span.member_id, span.delivery_count) == (record.member, record.count)
                    assert span.until_ms == record.until_ms
            offset = span.last + 1
        assert offset == self.window.end_offset
        unfinished = [o for o, record in self.model.items() if record.state not in FINAL_STATES]
        assert min(unfinished, default=self.window.end_offset) >= self.window.start_offset
        counted = dict.fromkeys(RecordState, 0)
        for span in self.window.spans:
            counted[span.state] += span.records
        assert all(self.window.spans.records_in[state] == counted[state] for state in RecordState)


TestWindowMachine = WindowMachine.TestCase
TestWindowMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
