from __future__ import annotations

import logging

import msgspec
import pytest

from headrace.events import Loaded, UnknownEventType
from headrace.events.codec import Codec
from headrace.events.index import Index
from headrace.events.records import Snapshot
from headrace.events.states import States, state_type
from tests.events.accounts import Account, Balance, Deposited
from tests.events.test_index import event

ADA = Loaded(state=Balance(amount=6, changes=3), version=3)


@pytest.fixture
def index() -> Index:
    """One with an account of three deposits: 1, 2 and 3."""
    index = Index()
    for version in range(1, 4):
        index.add_event(event(version, data=msgspec.json.encode(Deposited(amount=version))))
    return index


@pytest.fixture
def states(index: Index) -> States[Balance]:
    return States(Account(), Codec("event", Account.events), index, states_max=2)


def snapshot(version: int, state: Balance, *, state_version: int = 1) -> Snapshot:
    data = msgspec.json.encode(state)
    return Snapshot(aggregate_id="ada", version=version, state_version=state_version, data=data)


def test_state_is_replayed(states: States[Balance]) -> None:
    assert states.current("ada", {}) == ADA
    assert states.current("bob", {}) == Loaded(state=Balance(), version=0)


def test_state_at_every_version_is_that_of_its_prefix(states: States[Balance]) -> None:
    assert [states.at_version("ada", version).state.amount for version in range(4)] == [0, 1, 3, 6]


def test_replay_starts_at_the_snapshot(index: Index, states: States[Balance]) -> None:
    index.set_snapshot(snapshot(2, Balance(amount=1000)))
    assert states.current("ada", {}).state.amount == 1003
    assert states.at_version("ada", 2).state.amount == 1000
    assert states.at_version("ada", 1).state.amount == 1  # before it


def test_snapshot_of_another_state_version_is_ignored(index: Index, states: States[Balance]) -> None:
    index.set_snapshot(snapshot(2, Balance(amount=1000), state_version=2))
    assert states.current("ada", {}) == ADA


def test_snapshot_that_does_not_fit_is_ignored(
    index: Index, states: States[Balance], caplog: pytest.LogCaptureFixture
) -> None:
    index.set_snapshot(msgspec.structs.replace(snapshot(2, Balance()), data=b'{"amount": "x"}'))
    with caplog.at_level(logging.WARNING):
        assert states.current("ada", {}) == ADA
    assert "the snapshot of ada is ignored" in caplog.text


def test_newer_state_of_a_transaction_counts_first(states: States[Balance]) -> None:
    states.keep("ada", Loaded(state=Balance(amount=500), version=1))
    assert states.current("ada", {}).state.amount == 505
    newer = {"ada": Loaded(state=Balance(amount=900), version=3)}
    assert states.current("ada", newer).state.amount == 900


def test_state_that_was_not_used_for_longest_leaves(states: States[Balance]) -> None:
    for name in ("ada", "bob", "cleo"):
        states.keep(name, Loaded(state=Balance(amount=500), version=0))
    assert states.current("ada", {}).state.amount == 6
    assert states.current("cleo", {}).state.amount == 500


def test_unknown_event_is_an_error_that_names_the_aggregate(index: Index, states: States[Balance]) -> None:
    index.add_event(event(4, type="closed"))
    with pytest.raises(UnknownEventType, match="the events of ada can't be replayed: the event type closed"):
        states.current("ada", {})
    assert states.at_version("ada", 3) == ADA


def test_type_of_the_state_is_declared_or_that_of_the_initial_one() -> None:
    class Other(Account):
        state = Balance | None

    assert state_type(Account()) is Balance
    assert state_type(Other()) == Balance | None
