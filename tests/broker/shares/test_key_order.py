"""Ordering by key: a model that keeps every record decides what may be delivered, and a window must agree."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.broker.configs.share_rules import Rules
from headrace.broker.shares import key_order
from headrace.broker.shares.key_order import MISSING, Ahead, KeyOrder, OpenRange
from headrace.broker.shares.spans import OffsetRange
from headrace.broker.shares.states import FINAL_STATES, RecordState
from headrace.broker.shares.window import (
    Acknowledgement,
    AcknowledgeType,
    BatchKeys,
    LogBatch,
    Window,
)

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
A, B, C = 1, 2, 3


class Group:
    """A window over a log of keys, as a coordinator drives it."""

    def __init__(
        self,
        keys: Sequence[Ahead],
        batch_records: int = 4,
        rules: Rules | None = None,
        batches_read: int | None = None,
    ) -> None:
        self.batches_read = batches_read
        self.keys = keys
        self.batch_records = batch_records
        self.rules = rules or Rules(is_ordered=True)
        self.window = Window(0)
        self.now_ms = 1000

    def batches(self) -> list[LogBatch]:
        size = self.batch_records
        return [
            LogBatch(first, min(first + size, len(self.keys)) - 1) for first in range(0, len(self.keys), size)
        ]

    def fetch(
        self, member: str = "a", records_max: int = 100, *, is_strict: bool = True, hungry_members: int = 0
    ) -> list[int]:
        """The offsets that are now locked for a member. Reads on if nothing that was read could be locked."""
        if not self.window.set_ordered(is_ordered=True):
            return []
        order = self.window.order
        assert order is not None
        while True:
            progress, keys_from = order.progress, order.decoded_to
            runs = self.window.runs(self.now_ms, records_max=records_max, runs_max=1000)
            read = [
                batch
                for batch in self.batches()
                if any(batch.last >= run.first and batch.first <= run.last for run in runs)
            ][: self.batches_read]
            taken = self.window.acquire(
                read,
                member_id=member,
                now_ms=self.now_ms,
                rules=self.rules,
                records_max=records_max,
                is_strict=is_strict,
                keys=[
                    BatchKeys(batch.first, self.keys[batch.first : batch.last + 1])
                    for batch in read
                    if batch.last >= keys_from
                ],
                keys_from=keys_from,
                hungry_members=hungry_members,
            )
            if taken or order.progress == progress:
                return [offset for one in taken for offset in range(one.first, one.last + 1)]

    def acknowledge(self, kind: AcknowledgeType, *offsets: int, member: str = "a") -> None:
        wanted = [Acknowledgement(offset, offset, kind) for offset in offsets]
        self.window.acknowledge(wanted, member_id=member, now_ms=self.now_ms, rules=self.rules)

    def counts(self) -> dict[int, int]:
        return {
            offset: span.delivery_count
            for span in self.window.spans
            for offset in range(span.first, span.last + 1)
        }


def test_other_member_gets_only_records_of_other_keys() -> None:
    group = Group([A, B, A, C, A, B])
    assert group.fetch("a", 2) == [0, 1]
    assert group.fetch("b") == [3]
    assert group.fetch("c") == []
    group.acknowledge(ACCEPT, 0, member="a")
    assert group.fetch("c", 1) == [2]
    group.acknowledge(ACCEPT, 1, member="a")
    assert group.fetch("b") == [5]
    group.acknowledge(ACCEPT, 2, member="c")
    assert group.fetch("d") == [4]


def test_key_is_found_behind_batches_of_which_all_keys_are_in_flight() -> None:
    group = Group([A, B, B, A, A, B, A, B, C, C, A, B], batch_records=4)
    assert group.fetch("a", 4) == [0, 1, 2, 3]
    assert group.fetch("b", 1) == [8], "another key is found behind it"
    group.acknowledge(ACCEPT, 0, 1, 2, 3)
    assert group.fetch("a") == [4, 5, 6, 7, 10, 11], "9 is behind 8"
    assert group.fetch("c") == []
    group.acknowledge(ACCEPT, 8, member="b")
    assert group.fetch("c") == [9]


def test_member_gets_all_records_of_a_key_in_order() -> None:
    group = Group([A, A, A, B, A])
    assert group.fetch("a") == [0, 1, 2, 3, 4]


def test_released_record_holds_back_its_key_only() -> None:
    group = Group([A, B, A, B, C])
    assert group.fetch("a", 2) == [0, 1]
    group.acknowledge(RELEASE, 0)
    group.acknowledge(ACCEPT, 1)
    assert group.fetch("b", 1) == [0]
    assert group.fetch("c") == [3, 4], "record 2 waits for record 0"


def test_released_record_waits_until_its_member_has_no_later_one_of_the_key() -> None:
    """A member that releases the first of three must not process the other two before it."""
    group = Group([A, A, A])
    assert group.fetch("a") == [0, 1, 2]
    group.acknowledge(RELEASE, 0)
    assert group.fetch("b") == []
    group.acknowledge(RELEASE, 1, 2)
    assert group.fetch("b") == [0, 1, 2]


def test_delivery_counts_only_for_the_record_that_was_to_be_processed() -> None:
    """Otherwise one poisonous record would make dead letters of all records after it."""
    group = Group([A, A, A], rules=Rules(is_ordered=True, delivery_count_max=2))
    for _ in range(2):
        assert group.fetch() == [0, 1, 2]
        group.acknowledge(RELEASE, 0, 1, 2)
    assert group.window.start_offset == 1, "the first was delivered twice, and is gone"
    assert group.fetch() == [1, 2]
    assert group.counts() == {1: 2, 2: 1}


def test_record_after_an_accepted_one_counts_when_it_is_released() -> None:
    group = Group([A, A])
    group.fetch()
    group.acknowledge(ACCEPT, 0)
    group.acknowledge(RELEASE, 1)
    assert group.fetch() == [1]
    assert group.counts() == {1: 2}


def test_rejected_record_lets_its_key_continue() -> None:
    group = Group([A, A, B], rules=Rules(is_ordered=True, has_dead_letters=True))
    assert group.fetch("a", 1) == [0]
    group.acknowledge(REJECT, 0)
    assert group.fetch("b") == [1, 2]


def test_back_off_of_a_record_holds_back_its_key() -> None:
    group = Group([A, A, B], rules=Rules(is_ordered=True, backoff_ms=100))
    assert group.fetch("a", 1) == [0]
    group.acknowledge(RELEASE, 0)
    assert group.fetch("b") == [2]
    group.now_ms += 100
    group.window.expire(group.now_ms, group.rules)
    assert group.fetch("c") == [0, 1]


def test_expired_locks_are_delivered_again_in_order() -> None:
    group = Group([A, B, A], rules=Rules(is_ordered=True, lock_ms=50))
    assert group.fetch("a") == [0, 1, 2]
    group.now_ms += 50
    group.window.expire(group.now_ms, group.rules)
    assert group.fetch("b", 1) == [0]
    assert group.fetch("c") == [1]


def test_records_without_a_key_are_not_ordered() -> None:
    group = Group([None, None, A, None])
    assert group.fetch("a", 1) == [0]
    assert group.fetch("b") == [1, 2, 3]
    group.acknowledge(RELEASE, 1, member="b")
    assert group.fetch("c") == [1]


def test_missing_records_are_done() -> None:
    group = Group([MISSING, A, MISSING, MISSING, A])
    assert group.fetch("a") == [1, 4]
    group.acknowledge(ACCEPT, 1, 4)
    assert group.window.start_offset == 5


def test_deleted_records_hold_nothing_back() -> None:
    group = Group([A, A, B, A], batch_records=1)
    assert group.fetch("a", 1) == [0]
    assert group.fetch("b", 1) == [2]
    group.window.start_at(2)
    assert group.fetch("c") == [3]


def test_order_begins_when_nothing_is_locked() -> None:
    """A group that becomes ordered while members are at work: they finish first."""
    window, rules = Window(0), Rules()
    window.acquire([LogBatch(0, 3)], member_id="m", now_ms=0, rules=rules, records_max=2, is_strict=True)
    assert not window.set_ordered(is_ordered=True)
    window.acknowledge([Acknowledgement(0, 1, RELEASE)], member_id="m", now_ms=0, rules=rules)
    assert window.set_ordered(is_ordered=True)
    group = Group([A, A, B, A])
    group.window = window
    assert group.fetch("a") == [0, 1, 2, 3]


def test_keys_that_were_read_for_an_order_that_began_again_are_ignored() -> None:
    group = Group([A, A, B, A])
    group.fetch("a")
    window = Window(0)
    window.set_ordered(is_ordered=True)
    taken = window.acquire(
        [LogBatch(2, 3)],
        member_id="m",
        now_ms=0,
        rules=group.rules,
        records_max=5,
        keys=[BatchKeys(2, [B, A])],
        keys_from=2,
    )
    assert taken == []
    assert window.start_offset == 0, "nothing is skipped"


def test_no_further_keys_are_read_while_too_many_records_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_order, "WAITING_MAX", 3)
    group = Group([A] * 6 + [B], batch_records=1, batches_read=1)
    assert group.fetch("a", 1) == [0]
    assert group.fetch("b") == []
    order = group.window.order
    assert order is not None
    assert (order.waiting_records, order.decoded_to) == (3, 4)
    group.acknowledge(ACCEPT, 0)
    assert group.fetch("b") == [1]
    assert group.fetch("c") == []
    assert order.decoded_to == 5
    group.acknowledge(ACCEPT, 1, member="b")
    assert group.fetch("b") == [2]


def test_waiting_record_outside_of_what_was_read_is_not_locked() -> None:
    order = KeyOrder(0)
    order.add(range(4), [A, A, B, B], {A, B})
    assert order.take("a", [OffsetRange(0, 3)], records_max=4, whole_max=4) == [OffsetRange(0, 3)]
    for offset in range(4):
        order.release("a", offset, is_delayed=False)
    assert order.open_ranges(10, 10, whole_max=10) == [OpenRange(0, 3, 4)]
    taken = order.take("b", [OffsetRange(1, 3)], records_max=10, whole_max=10)
    assert taken == [OffsetRange(2, 3)], "1 is behind 0"


def test_fetch_above_its_limit_takes_all_of_a_batch_that_is_free() -> None:
    """Otherwise the same batch would be sent again and again."""
    group = Group([A, B, A, B, A, B, C, C], batch_records=4)
    assert group.fetch("a", 1) == [0]
    assert group.fetch("b", 1, is_strict=False) == [1, 3, 5, 6, 7]


def test_slow_member_leaves_its_share_of_the_keys_to_members_that_found_none() -> None:
    group = Group([A, B, C, 4] * 4, batch_records=8)
    assert group.fetch("a", 8, hungry_members=1) == [*range(8)], "it is not known to be slow"
    group.now_ms += 1000
    group.acknowledge(ACCEPT, *range(8))
    assert group.fetch("a", 8, is_strict=False, hungry_members=1) == [8, 9, 12, 13]
    assert group.fetch("b", 8, is_strict=False) == [10, 11, 14, 15]


def test_fast_members_take_whole_batches_one_after_the_other() -> None:
    group = Group([A, B, C, 4] * 4, batch_records=8)
    group.fetch("a", 8)
    group.now_ms += 1
    group.acknowledge(ACCEPT, *range(8))
    assert group.fetch("a", 8, is_strict=False, hungry_members=3) == [*range(8, 16)]


def test_member_with_locks_of_two_fetches_finishes_some_of_each() -> None:
    group = Group([A, B, A, B, C], batch_records=1)
    assert group.fetch("a", 2) == [0, 1]
    assert group.fetch("a", 1) == [4]
    group.acknowledge(ACCEPT, 1, 4)
    assert group.fetch("b") == [3]
    group.acknowledge(RELEASE, 0)
    assert group.fetch("c") == [0, 2]


MEMBERS = ("a", "b", "c")


class Record:
    def __init__(self, key: Ahead) -> None:
        self.key = key
        self.state = RecordState.AVAILABLE
        self.member = ""
        self.count = 0
        self.until_ms = 0


class OrderMachine(RuleBasedStateMachine):
    """Random fetches, acknowledgements, expiries and restarts. The model finds out what may be delivered by looking at
    every record."""

    @initialize(
        keys=st.lists(st.sampled_from((A, B, C, A, B, None, MISSING)), min_size=8, max_size=40),
        batch_records=st.integers(1, 8),
        limit=st.integers(1, 3),
        dead=st.booleans(),
        backoff_ms=st.sampled_from((0, 15)),
    )
    def start(self, keys: list[Ahead], batch_records: int, limit: int, dead: bool, backoff_ms: int) -> None:
        rules = Rules(
            is_ordered=True,
            lock_ms=100,
            delivery_count_max=limit,
            has_dead_letters=dead,
            backoff_ms=backoff_ms,
        )
        self.group = Group(keys, batch_records, rules)
        self.model = [Record(key) for key in keys]
        self.finished: dict[int, list[int]] = {}

    def _unfinished(self, key: Ahead) -> list[int]:
        return [
            offset
            for offset, record in enumerate(self.model)
            if record.key == key and record.state in (RecordState.AVAILABLE, RecordState.ACQUIRED)
        ]

    def _deliverable(self) -> list[int]:
        """All that one member could get, in order."""
        found, blocked = [], set()
        for offset, record in enumerate(self.model):
            if record.state is not RecordState.AVAILABLE or record.key is MISSING:
                continue
            if record.key is None:
                if not record.until_ms:
                    found.append(offset)
                continue
            is_locked = any(
                self.model[each].state is RecordState.ACQUIRED for each in self._unfinished(record.key)
            )
            if is_locked or record.until_ms or record.key in blocked:
                blocked.add(record.key)
            else:
                found.append(offset)
        return found

    @precondition(lambda self: hasattr(self, "group"))
    @rule(
        member=st.sampled_from(MEMBERS),
        records_max=st.integers(1, 12),
        is_strict=st.booleans(),
        hungry_members=st.sampled_from((0, 0, 1, 3)),
    )
    def fetch(self, member: str, records_max: int, is_strict: bool, hungry_members: int = 0) -> None:
        expected = self._deliverable()
        taken = self.group.fetch(member, records_max, is_strict=is_strict, hungry_members=hungry_members)
        assert taken == sorted(taken)
        assert bool(taken) == bool(expected)
        for key in {self.model[offset].key for offset in taken} - {None}:
            of_key = [offset for offset in taken if self.model[offset].key == key]
            assert of_key == [each for each in expected if self.model[each].key == key][: len(of_key)]
        assert set(taken) <= set(expected)
        if is_strict:
            assert hungry_members or taken == expected[: len(taken)]
            assert len(taken) <= records_max
        for offset in taken:
            record = self.model[offset]
            record.state, record.member = RecordState.ACQUIRED, member
            record.count += 1
            record.until_ms = self.group.now_ms + self.group.rules.lock_ms

    @rule(
        member=st.sampled_from(MEMBERS),
        kind=st.sampled_from((ACCEPT, RELEASE, REJECT)),
        first=st.integers(0, 3),
        count=st.integers(1, 4),
    )
    def acknowledge(self, member: str, kind: AcknowledgeType, first: int, count: int) -> None:
        held = [offset for offset, record in enumerate(self.model) if self._holds(record, member)]
        picked = held[first : first + count]
        if not picked:
            return
        self.group.acknowledge(kind, *picked, member=member)
        for offset in picked:
            if kind is RELEASE:
                self._release(offset)
            else:
                self._finish(offset, kind)

    def _holds(self, record: Record, member: str) -> bool:
        return record.state is RecordState.ACQUIRED and record.member == member

    def _finish(self, offset: int, kind: AcknowledgeType) -> None:
        record = self.model[offset]
        record.until_ms = 0
        record.state = RecordState.ACKNOWLEDGED if kind is ACCEPT else RecordState.ARCHIVED

    def _release(self, offset: int, *, is_delayed: bool = True) -> None:
        record, rules = self.model[offset], self.group.rules
        is_behind = record.key is not None and any(
            each < offset and self.model[each].state is RecordState.AVAILABLE
            for each in self._unfinished(record.key)
        )
        if is_behind:
            record.count -= 1
        elif record.count >= rules.delivery_count_max:
            self._finish(offset, REJECT)
            return
        delay_ms = rules.delay_ms(record.count) if is_delayed and not is_behind else 0
        record.state, record.member = RecordState.AVAILABLE, ""
        record.until_ms = self.group.now_ms + delay_ms if delay_ms else 0

    @rule(elapsed_ms=st.sampled_from((1, 20, 100)))
    def time_passes(self, elapsed_ms: int) -> None:
        self.group.now_ms += elapsed_ms
        now_ms = self.group.now_ms
        self.group.window.expire(now_ms, self.group.rules)
        for offset, record in enumerate(self.model):
            if record.until_ms and record.until_ms <= now_ms:
                if record.state is RecordState.ACQUIRED:
                    self._release(offset)
                else:
                    record.until_ms = 0

    @rule(member=st.sampled_from(MEMBERS), records_max=st.integers(1, 4))
    def accept_all_and_fetch(self, member: str, records_max: int) -> None:
        self.acknowledge(member, ACCEPT, 0, len(self.model))
        self.fetch(member, records_max, is_strict=True)

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: str) -> None:
        self.group.window.abandon(member, self.group.now_ms, self.group.rules, is_orderly=True)
        for offset, record in enumerate(self.model):
            if self._holds(record, member):
                self._release(offset, is_delayed=False)

    @rule()
    def write_dead_letters(self) -> None:
        for records in self.group.window.dead:
            self.group.window.letters_written(records.first, records.last)
        self.group.window.dead.clear()

    @rule()
    def restart(self) -> None:
        window = self.group.window
        self.group.window = Window.restored(window.start_offset, window.snapshot())
        for record in self.model:
            record.until_ms = 0
            if record.state is RecordState.ACQUIRED:
                record.state, record.member, record.count = RecordState.AVAILABLE, "", record.count - 1

    @rule(offset=st.integers(0, 40))
    def delete_before(self, offset: int) -> None:
        if offset >= self.group.window.end_offset:
            return
        self.group.window.start_at(offset)
        for record in self.model[:offset]:
            record.state, record.until_ms = RecordState.ARCHIVED, 0

    @invariant()
    def window_agrees_with_the_model(self) -> None:
        if not hasattr(self, "group"):
            return
        for span in self.group.window.spans:
            for offset in range(span.first, span.last + 1):
                record = self.model[offset]
                if record.key is MISSING:
                    continue
                if record.state in FINAL_STATES:
                    assert span.state in FINAL_STATES or span.state is RecordState.ARCHIVING
                else:
                    assert (span.state, span.delivery_count) == (record.state, record.count)

    @invariant()
    def key_is_in_flight_with_one_member(self) -> None:
        if not hasattr(self, "group"):
            return
        for key in (A, B, C):
            offsets = self._unfinished(key)
            members = {self.model[each].member for each in offsets} - {""}
            assert len(members) <= 1


TestOrderMachine = OrderMachine.TestCase
TestOrderMachine.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
