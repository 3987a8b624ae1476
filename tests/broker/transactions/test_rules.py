"""What requests do to a transaction, without a broker; every random walk keeps what transactions promise."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from headrace.broker.transactions import rules
from headrace.broker.transactions.state import (
    EPOCH_HANDED_OUT_MAX,
    EPOCH_MAX,
    TRANSITIONS,
    ClientVersion,
    Producer,
    TopicPartition,
    Transaction,
    TransactionState,
)
from headrace.protocol.error_codes import ErrorCode

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
SPARE = 999


def transaction(**changes: object) -> Transaction:
    made = rules.begin_producer("tx", 5, timeout_ms=1000, now_ms=0).transaction
    assert made is not None
    return replace(made, **changes)


def ongoing(**changes: object) -> Transaction:
    return transaction(
        **{"state": TransactionState.ONGOING, "partitions": frozenset({A}), "started_ms": 0, **changes}
    )


def end(
    of: Transaction, producer: Producer | None = None, *, is_commit: bool = True, bumps: bool = False
) -> rules.Outcome:
    return rules.end(
        of,
        producer or of.producer,
        is_commit=is_commit,
        client_version=ClientVersion.EPOCH_BUMPS if bumps else ClientVersion.CLASSIC,
        spare_producer_id=SPARE,
        now_ms=1,
    )


def done(outcome: rules.Outcome) -> Transaction:
    assert outcome.error is ErrorCode.NONE
    assert outcome.transaction is not None
    return outcome.transaction


def test_every_state_can_be_reached_and_left() -> None:
    reached = set(TRANSITIONS.values())
    left = {before for before, _ in TRANSITIONS}
    assert reached == set(TransactionState)
    assert left == set(TransactionState) - {TransactionState.DEAD}


def test_a_transaction_that_is_prepared_takes_nothing_more() -> None:
    prepared = done(end(ongoing()))
    added = rules.add_partitions(
        prepared, prepared.producer, [B], client_version=ClientVersion.CLASSIC, now_ms=2
    )
    assert added.error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert rules.check_partition(prepared, prepared.producer, A) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert end(prepared).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert end(prepared, is_commit=False).error is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("is_commit", [True, False])
def test_when_epochs_run_out_the_end_of_a_transaction_brings_a_new_id(is_commit: bool) -> None:
    last = ongoing(producer_epoch=EPOCH_HANDED_OUT_MAX)
    prepared = done(end(last, is_commit=is_commit, bumps=True))
    assert prepared.producer == Producer(id=5, epoch=EPOCH_MAX), "the markers still fence the old id"
    ended = rules.complete(prepared, 2)
    assert ended.producer == Producer(id=SPARE, epoch=0)
    again = end(ended, last.producer, is_commit=is_commit, bumps=True)
    assert again == rules.Outcome(), "a retry by the old id is known"


def test_when_epochs_run_out_a_new_instance_gets_a_new_id() -> None:
    worn = transaction(producer_epoch=EPOCH_HANDED_OUT_MAX)
    outcome = rules.init_producer(worn, None, spare_producer_id=SPARE, timeout_ms=1000, now_ms=1)
    assert done(outcome).producer == Producer(id=SPARE, epoch=0)


def test_fencing_never_runs_out_of_epochs() -> None:
    fenced = done(rules.fence(ongoing(producer_epoch=EPOCH_HANDED_OUT_MAX), 1))
    assert fenced.producer_epoch == EPOCH_MAX


def test_a_producer_that_raises_its_epoch_amid_a_transaction_gets_it_when_that_is_aborted() -> None:
    before = ongoing()
    outcome = rules.init_producer(before, before.producer, spare_producer_id=SPARE, timeout_ms=1000, now_ms=1)
    assert outcome.error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert outcome.transaction is not None
    aborted = rules.complete(outcome.transaction, 2)
    again = rules.init_producer(aborted, before.producer, spare_producer_id=SPARE, timeout_ms=1000, now_ms=3)
    assert done(again).producer_epoch > before.producer_epoch


@given(state=st.sampled_from(TransactionState), age_ms=st.integers(0, 5000))
def test_only_an_open_transaction_times_out_and_only_one_at_rest_expires(
    state: TransactionState, age_ms: int
) -> None:
    one = transaction(state=state, started_ms=0)
    assert rules.is_timed_out(one, age_ms) == (state is TransactionState.ONGOING and age_ms >= 1000)
    assert rules.is_expired(one, age_ms, 2000) == (state.is_at_rest and age_ms >= 2000)


class Walk(RuleBasedStateMachine):
    """Instances of one id, partitions that hear of its writes and markers, and readers of committed data."""

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

    def put(self, outcome: rules.Outcome) -> None:
        if outcome.transaction is None:
            return
        before, self.current = self.current, outcome.transaction
        if self.current.state.is_prepared and not before.state.is_prepared:
            for number in self.open_numbers:
                assert number not in self.decided
                self.decided[number] = self.current.state.is_commit
            self.open_numbers = set()

    @rule(held=st.booleans(), data=st.data())
    def init(self, held: bool, data: st.DataObject) -> None:
        expected = data.draw(st.sampled_from(self.live)) if held else None
        outcome = rules.init_producer(
            self.current, expected, spare_producer_id=SPARE, timeout_ms=1000, now_ms=self.now_ms
        )
        self.put(outcome)
        if outcome.error is ErrorCode.NONE:
            self.live.append(self.current.producer)

    @rule(data=st.data(), partition=st.sampled_from([A, B]), adds=st.booleans())
    def write(self, data: st.DataObject, partition: TopicPartition, adds: bool) -> None:
        producer = data.draw(st.sampled_from(self.live))
        if adds:
            outcome = rules.add_partitions(
                self.current,
                producer,
                [partition],
                client_version=ClientVersion.EPOCH_BUMPS,
                now_ms=self.now_ms,
            )
            self.put(outcome)
            error = outcome.error
        else:
            error = rules.check_partition(self.current, producer, partition)
        if error is ErrorCode.NONE:
            assert producer == self.current.producer, "only the newest instance writes"
            self.number += 1
            self.written[partition].append(self.number)
            self.open_numbers.add(self.number)

    @rule(data=st.data(), is_commit=st.booleans(), bumps=st.booleans())
    def end(self, data: st.DataObject, is_commit: bool, bumps: bool) -> None:
        producer = data.draw(st.sampled_from(self.live))
        before = self.current
        outcome = end(self.current, producer, is_commit=is_commit, bumps=bumps)
        self.put(outcome)
        if outcome.transaction is not None:
            assert producer == before.producer, "only the newest instance ends"
        if outcome.error is ErrorCode.NONE and bumps:
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
    def nothing_hangs(self) -> None:
        for partition, numbers in self.written.items():
            if numbers:
                assert partition in self.current.partitions, "what is written is ended by somebody"
                assert self.current.state is TransactionState.ONGOING or self.current.state.is_prepared

    @invariant()
    def all_or_nothing(self) -> None:
        seen = {number for numbers in self.visible.values() for number in numbers}
        assert all(self.decided[number] for number in seen)
        if self.current.state.is_at_rest:
            assert seen == {number for number, is_commit in self.decided.items() if is_commit}


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=80, stateful_step_count=30)
