"""The effect of requests on a transaction, without a broker; every random walk keeps the promises of transactions."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.rejections import RequestRejected
from headrace.broker.transactions import rules
from headrace.broker.transactions.state import (
    EPOCH_HANDED_OUT_MAX,
    EPOCH_MAX,
    TRANSITIONS,
    ClientVersion,
    Producer,
    Transaction,
    TransactionState,
)
from headrace.protocol.error_codes import ErrorCode

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
SPARE = 999


def transaction(**changes: object) -> Transaction:
    new = Transaction(transactional_id="tx", producer_id=5, producer_epoch=0, timeout_ms=1000, updated_ms=0)
    return replace(new, **changes)


def ongoing(**changes: object) -> Transaction:
    return transaction(
        **{"state": TransactionState.ONGOING, "partitions": frozenset({A}), "started_ms": 0, **changes}
    )


def end(
    of: Transaction, producer: Producer | None = None, *, is_commit: bool = True, bumps: bool = False
) -> Transaction:
    return rules.end(
        of,
        producer or of.producer,
        is_commit=is_commit,
        client_version=ClientVersion.EPOCH_BUMPS if bumps else ClientVersion.CLASSIC,
        spare_producer_id=SPARE,
        now_ms=1,
    )


def rejected(code: ErrorCode) -> AbstractContextManager[object]:
    return pytest.raises(RequestRejected, match=code.name)


def test_every_state_can_be_reached_and_left() -> None:
    reached = set(TRANSITIONS.values())
    left = {before for before, _ in TRANSITIONS}
    assert reached == set(TransactionState)
    assert left == set(TransactionState) - {TransactionState.DEAD}


def test_prepared_transaction_accepts_no_further_request() -> None:
    prepared = end(ongoing())
    classic = ClientVersion.CLASSIC
    with rejected(ErrorCode.CONCURRENT_TRANSACTIONS):
        rules.add_partitions(prepared, prepared.producer, [B], client_version=classic, now_ms=2)
    with rejected(ErrorCode.CONCURRENT_TRANSACTIONS):
        rules.check_partition(prepared, prepared.producer, A)
    with rejected(ErrorCode.CONCURRENT_TRANSACTIONS):
        end(prepared)
    with rejected(ErrorCode.INVALID_TXN_STATE):
        end(prepared, is_commit=False)


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_of_a_transaction_has_a_new_id_when_epochs_are_exhausted(is_commit: bool) -> None:
    last = ongoing(producer_epoch=EPOCH_HANDED_OUT_MAX)
    prepared = end(last, is_commit=is_commit, bumps=True)
    assert prepared.producer == Producer(id=5, epoch=EPOCH_MAX), "the markers still fence the old id"
    ended = rules.complete(prepared, 2)
    assert ended.producer == Producer(id=SPARE, epoch=0)
    again = end(ended, last.producer, is_commit=is_commit, bumps=True)
    assert again is ended, "a retry by the old id is known"


def test_new_instance_gets_a_new_id_when_epochs_are_exhausted() -> None:
    worn = transaction(producer_epoch=EPOCH_HANDED_OUT_MAX)
    renewed = rules.init_producer(worn, None, spare_producer_id=SPARE, timeout_ms=1000, now_ms=1)
    assert renewed.producer == Producer(id=SPARE, epoch=0)


def test_fencing_is_possible_when_epochs_are_exhausted() -> None:
    fenced = rules.fence(ongoing(producer_epoch=EPOCH_HANDED_OUT_MAX), 1)
    assert fenced.producer_epoch == EPOCH_MAX


def test_producer_that_bumps_its_epoch_in_a_transaction_gets_it_after_the_abort() -> None:
    before = ongoing()
    fenced = rules.init_producer(before, before.producer, spare_producer_id=SPARE, timeout_ms=1000, now_ms=1)
    assert fenced.state is TransactionState.PREPARE_ABORT
    aborted = rules.complete(fenced, 2)
    again = rules.init_producer(aborted, before.producer, spare_producer_id=SPARE, timeout_ms=1000, now_ms=3)
    assert again.producer_epoch > before.producer_epoch


@given(state=st.sampled_from(TransactionState), age_ms=st.integers(0, 5000))
def test_only_a_transaction_at_rest_expires(state: TransactionState, age_ms: int) -> None:
    one = transaction(state=state, started_ms=0)
    assert rules.is_expired(one, age_ms, 2000) == (state.is_at_rest and age_ms >= 2000)


class Walk(RuleBasedStateMachine):
    """Instances of one id, partitions with its writes and markers, and readers of committed data."""

    @initialize()
    def begin(self) -> None:
        self.now_ms = 0
        self.current = transaction()
        self.live: list[Producer] = [self.current.producer]
        self.written: dict[TopicPartition, list[int]] = {A: [], B: []}  # numbers of open writes
        self.visible: dict[TopicPartition, list[int]] = {A: [], B: []}
        self.number = 0
        self.open_numbers: set[int] = set()
        self.decided: dict[int, bool] = {}

    def put(self, after: Transaction) -> None:
        before, self.current = self.current, after
        if self.current.state.is_prepared and not before.state.is_prepared:
            for number in self.open_numbers:
                assert number not in self.decided
                self.decided[number] = self.current.state.is_commit
            self.open_numbers = set()

    @rule(held=st.booleans(), data=st.data())
    def init(self, held: bool, data: st.DataObject) -> None:
        expected = data.draw(st.sampled_from(self.live)) if held else None
        with suppress(RequestRejected):
            self.put(
                rules.init_producer(
                    self.current, expected, spare_producer_id=SPARE, timeout_ms=1000, now_ms=self.now_ms
                )
            )
            if not self.current.state.is_prepared:
                self.live.append(self.current.producer)

    @rule(data=st.data(), partition=st.sampled_from([A, B]), adds=st.booleans())
    def write(self, data: st.DataObject, partition: TopicPartition, adds: bool) -> None:
        producer = data.draw(st.sampled_from(self.live))
        with suppress(RequestRejected):
            if adds:
                newest = ClientVersion.EPOCH_BUMPS
                self.put(
                    rules.add_partitions(
                        self.current, producer, [partition], client_version=newest, now_ms=self.now_ms
                    )
                )
            else:
                rules.check_partition(self.current, producer, partition)
            assert producer == self.current.producer, "only the newest instance writes"
            self.number += 1
            self.written[partition].append(self.number)
            self.open_numbers.add(self.number)

    @rule(data=st.data(), is_commit=st.booleans(), bumps=st.booleans())
    def end(self, data: st.DataObject, is_commit: bool, bumps: bool) -> None:
        producer = data.draw(st.sampled_from(self.live))
        before = self.current
        with suppress(RequestRejected):
            self.put(end(before, producer, is_commit=is_commit, bumps=bumps))
            if self.current is not before:
                assert producer == before.producer, "only the newest instance ends"
            if bumps:
                self.live.append(
                    rules.complete(self.current, 0).producer
                    if self.current.state.is_prepared
                    else self.current.producer
                )

    @precondition(lambda self: self.current.state is TransactionState.ONGOING)
    @rule()
    def time_out(self) -> None:
        self.put(rules.fence(self.current, self.now_ms))

    @precondition(lambda self: self.current.state.is_prepared)
    @rule()
    def complete(self) -> None:
        for partition in self.current.partitions:
            if self.current.state.is_commit:
                self.visible[partition] += self.written[partition]
            self.written[partition] = []
        self.current = rules.complete(self.current, self.now_ms)

    @invariant()
    def every_write_is_ended(self) -> None:
        for partition, numbers in self.written.items():
            if numbers:
                assert partition in self.current.partitions, "every write is part of a transaction"
                assert self.current.state is TransactionState.ONGOING or self.current.state.is_prepared

    @invariant()
    def all_or_nothing(self) -> None:
        seen = {number for numbers in self.visible.values() for number in numbers}
        assert all(self.decided[number] for number in seen)
        if self.current.state.is_at_rest:
            assert seen == {number for number, is_commit in self.decided.items() if is_commit}


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=80, stateful_step_count=30)
