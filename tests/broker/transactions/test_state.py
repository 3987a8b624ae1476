"""States of a transaction: the picture in the docs, the numbers and names of Kafka, and its epochs."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.broker.transactions.state import EPOCH_MAX, TRANSITIONS, Transaction, TransactionState, Trigger

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "transactions.md"


def picture() -> str:
    """The table of transitions as a Mermaid diagram, one arrow for each pair of states."""
    arrows: dict[tuple[TransactionState, TransactionState], list[str]] = {}
    for (before, trigger), after in TRANSITIONS.items():
        arrows.setdefault((before, after), []).append(trigger.value)
    lines = ["stateDiagram-v2", f"    [*] --> {TransactionState.EMPTY.display_name}"]
    lines += [
        f"    {before.display_name} --> {after.display_name}: {'<br/>'.join(reasons)}"
        for (before, after), reasons in arrows.items()
    ]
    lines += [f"    {TransactionState.DEAD.display_name} --> [*]"]
    return "\n".join(["```mermaid", *lines, "```"])


def test_page_on_transactions_shows_the_table_of_transitions() -> None:
    assert picture() in PAGE.read_text(), f"put this into {PAGE.name}:\n{picture()}"


def test_states_have_the_numbers_and_names_of_kafka() -> None:
    assert {state.value: state.display_name for state in TransactionState} == {
        0: "Empty",
        1: "Ongoing",
        2: "PrepareCommit",
        3: "PrepareAbort",
        4: "CompleteCommit",
        5: "CompleteAbort",
        6: "Dead",
    }


def test_prepared_transaction_completes_as_decided() -> None:
    prepared = [state for state in TransactionState if state.is_prepared]
    assert [TRANSITIONS[state, Trigger.MARKED].is_commit for state in prepared] == [
        state.is_commit for state in prepared
    ]
    assert [trigger for state, trigger in TRANSITIONS if state.is_prepared] == [Trigger.MARKED] * 2
    assert all(TRANSITIONS[state, Trigger.MARKED].is_at_rest for state in prepared)


def test_transaction_moves_only_as_the_table_allows() -> None:
    empty = Transaction(transactional_id="x", producer_id=1, producer_epoch=0, timeout_ms=1, updated_ms=0)
    ongoing = empty.moved(Trigger.PARTITION_ADDED, 5, started_ms=5)
    assert (ongoing.state, ongoing.updated_ms, ongoing.started_ms) == (TransactionState.ONGOING, 5, 5)
    with pytest.raises(KeyError):
        ongoing.moved(Trigger.INITIALIZED, 6)


def test_last_epoch_is_reserved_for_fencing() -> None:
    empty = Transaction(
        transactional_id="x", producer_id=1, producer_epoch=EPOCH_MAX - 2, timeout_ms=1, updated_ms=0
    )
    assert not empty.is_exhausted
    assert replace(empty, producer_epoch=EPOCH_MAX - 1).is_exhausted
