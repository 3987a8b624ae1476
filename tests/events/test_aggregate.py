from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.events import Aggregate, InvalidEvent, Loaded, fold
from headrace.events.aggregate import AGGREGATE_ID_BYTES_MAX, check_aggregate_id
from tests.events.accounts import Account, Balance, Deposit, Deposited, Event, Withdrawn

ACCOUNT = Account()
START = Loaded(state=ACCOUNT.initial, version=0)
EVENTS = st.lists(
    st.builds(Deposited, amount=st.integers(0, 99)) | st.builds(Withdrawn, amount=st.integers(0, 99))
)


@given(EVENTS)
def test_version_counts_the_events(events: list[Event]) -> None:
    loaded = fold(ACCOUNT, START, events)
    assert loaded.version == loaded.state.changes == len(events)


@given(EVENTS, st.data())
def test_fold_can_continue_from_any_version(events: list[Event], data: st.DataObject) -> None:
    middle = data.draw(st.integers(0, len(events)))
    snapshot = fold(ACCOUNT, START, events[:middle])
    assert fold(ACCOUNT, snapshot, events[middle:]) == fold(ACCOUNT, START, events)


def test_aggregate_without_functions_is_an_error() -> None:
    aggregate: Aggregate[Balance, Deposit, Deposited] = Aggregate()
    with pytest.raises(NotImplementedError):
        aggregate.decide(Balance(), Deposit(amount=1))
    with pytest.raises(NotImplementedError):
        aggregate.evolve(Balance(), Deposited(amount=1))


@pytest.mark.parametrize("aggregate_id", ["ada", "a/b c", "Łukasz 🐘", "x" * AGGREGATE_ID_BYTES_MAX])
def test_text_is_an_aggregate_id(aggregate_id: str) -> None:
    assert check_aggregate_id(aggregate_id).decode() == aggregate_id


@pytest.mark.parametrize(
    "aggregate_id", ["", None, 7, b"ada", "\ud800", "x" * (AGGREGATE_ID_BYTES_MAX + 1), "é" * 1000]
)
def test_anything_else_is_rejected(aggregate_id: str) -> None:
    with pytest.raises(InvalidEvent) as raised:
        check_aggregate_id(aggregate_id)
    assert raised.value.hint
