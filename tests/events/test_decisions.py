from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.events import CommandRejected, InvalidEvent, VersionConflict
from headrace.events import decisions as module
from headrace.events.decisions import Command, Decisions, Handled, Transaction
from headrace.events.followed_log import LogSetup
from headrace.events.partition import EventDraft, Partition
from headrace.events.records import Topics
from headrace.kafka.cluster import Cluster
from headrace.testing.manual_clock import ManualClock
from tests.events.accounts import Account, Balance, Deposit, Deposited, Event, Withdraw
from tests.events.accounts import Command as AccountCommand

TOPICS = Topics.of("t")


class Desk:
    """Decisions in a partition that is not connected: transactions are drafted, and never sent."""

    def __init__(self, *, snapshot_every: int | None = None, message_bytes_max: int = 10_000) -> None:
        # No broker has this address; nothing connects before something is read or written.
        setup = LogSetup(
            cluster=Cluster("127.0.0.1:1", timeout_s=1),
            topics=(TOPICS.events,),
            message_bytes_max=message_bytes_max,
            timeout_s=1,
        )
        self.clock = ManualClock()
        self.partition = Partition(setup, TOPICS, number=0, partitions=1)
        self.decisions: Decisions[Balance, AccountCommand, Event] = Decisions(
            Account(),
            self.partition,
            topic="t",
            message_bytes_max=message_bytes_max,
            snapshot_every=snapshot_every,
            clock=self.clock,
        )
        self.newest: dict[str, Any] = {}

    def transaction(self) -> Transaction[Balance, AccountCommand, Event]:
        return Transaction(self.decisions, EventDraft(TOPICS, self.partition.index), self.newest)

    def handle(self, command: AccountCommand, **fields: Any) -> Handled:
        return self.transaction().handle(envelope(command, **fields))


def envelope(command: AccountCommand, **fields: Any) -> Command:
    data = msgspec.json.encode(command)
    return Command(
        **{"aggregate_id": "ada", "id": "c1", "type": type(command).__name__, "data": data, **fields}
    )


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.partition.close()


@given(st.lists(st.builds(Deposit, amount=st.integers(0, 9)) | st.builds(Withdraw, amount=st.integers(1, 9))))
def test_balance_is_never_negative_and_versions_have_no_gap(commands: list[AccountCommand]) -> None:
    desk = Desk(snapshot_every=3)
    balance, versions = 0, []
    for number, command in enumerate(commands):
        try:
            handled = desk.handle(command, id=f"c{number}")
        except CommandRejected:
            assert isinstance(command, Withdraw)
            assert command.amount > balance
            continue
        versions += [each.version for each in handled.events]
        balance += command.amount if isinstance(command, Deposit) else -command.amount  # type: ignore[union-attr]
    assert versions == list(range(1, len(versions) + 1))
    replayed = desk.decisions.states.at_version("ada", len(versions))
    assert replayed.state == Balance(amount=balance, changes=len(versions))
    assert desk.decisions.states.current("ada", {}) == replayed
    desk.partition.close()


def test_decisions_of_one_transaction_see_each_other(desk: Desk) -> None:
    transaction = desk.transaction()
    transaction.handle(envelope(Deposit(amount=10)))
    handled = transaction.handle(envelope(Withdraw(amount=10), id="c2"))
    assert handled.version == 2
    with pytest.raises(CommandRejected, match="the balance is 0"):
        transaction.handle(envelope(Withdraw(amount=1), id="c3"))
    assert len(transaction.draft.records) == 2


def test_command_id_is_handled_once(desk: Desk) -> None:
    first = desk.handle(Deposit(amount=10))
    again = desk.handle(Deposit(amount=10))
    assert again.is_repeated
    assert (again.version, again.events) == (first.version, first.events)
    assert desk.handle(Deposit(amount=10), aggregate_id="bob").version == 1


def test_rejection_is_repeated_but_an_error_is_decided_again(desk: Desk) -> None:
    transaction = desk.transaction()
    transaction.reject(envelope(Withdraw(amount=1), id="c1"), CommandRejected("no"))
    transaction.reject(envelope(Deposit(amount=1), id="c2"), ZeroDivisionError("a bug"))
    repeated = desk.handle(Deposit(amount=5), id="c1")
    assert repeated.rejection is not None
    assert (repeated.rejection.reason, repeated.events) == ("no", ())
    assert desk.handle(Deposit(amount=1), id="c2").version == 1


def test_correlation_is_that_of_the_command_or_its_id(desk: Desk) -> None:
    (first,) = desk.handle(Deposit(amount=1), id="c1").events
    (second,) = desk.handle(Deposit(amount=1), id="c2", correlation_id="order-7").events
    assert (first.correlation_id, first.causation_id) == ("c1", "c1")
    assert (second.correlation_id, second.causation_id) == ("order-7", "c2")


def test_expected_version_of_a_command_is_checked(desk: Desk) -> None:
    desk.handle(Deposit(amount=1), expected_version=0)
    for wrong in (0, 2):
        with pytest.raises(VersionConflict) as raised:
            desk.handle(Deposit(amount=1), id="c2", expected_version=wrong)
        assert raised.value.version == 1


def test_time_of_an_aggregate_does_not_go_back(desk: Desk) -> None:
    desk.clock.advance_ms(1000)
    (first,) = desk.handle(Deposit(amount=1), id="c1").events
    desk.decisions.clock = ManualClock()  # a process whose clock is a second behind
    (second,) = desk.handle(Deposit(amount=1), id="c2").events
    assert second.timestamp_ms == first.timestamp_ms


def test_snapshot_is_written_when_the_number_of_events_is_reached() -> None:
    desk = Desk(snapshot_every=3)
    transaction = desk.transaction()
    for size in (2, 2, 1, 1):  # versions 2, 4, 5 and 6
        transaction.append("ada", [Deposited(amount=1)] * size, expected_version=None)
    snapshots = [each for each in transaction.draft.records if each.topic == TOPICS.snapshots]
    assert [msgspec.json.decode(each.value or b"")["changes"] for each in snapshots] == [4, 6]
    desk.partition.close()


def test_snapshot_that_is_too_large_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(snapshot_every=1, message_bytes_max=700)
    desk.decisions.aggregate.state_version = 10**600  # a header of 600 bytes
    transaction = desk.transaction()
    with caplog.at_level(logging.WARNING):
        transaction.append("ada", [Deposited(amount=1)], expected_version=0)
    assert "ada gets no snapshot" in caplog.text
    assert [each.topic for each in transaction.draft.records] == [TOPICS.events]
    desk.partition.close()


def test_event_that_is_too_large_drafts_nothing(desk: Desk) -> None:
    transaction = desk.transaction()
    with pytest.raises(InvalidEvent, match="the topic takes 10,000"):
        transaction.append(
            "ada", [Deposited(amount=1), Deposited(amount=1, note="x" * 10_000)], expected_version=0
        )
    assert transaction.draft.records == []
    assert desk.partition.index.version("ada") == 0


def test_too_many_events_are_rejected(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENTS_MAX", 3)
    with pytest.raises(InvalidEvent, match="at most 3"):
        desk.transaction().append("ada", [Deposited(amount=1)] * 4, expected_version=0)


def test_rejection_of_a_large_command_keeps_the_reason(desk: Desk) -> None:
    large = envelope(Deposit(amount=1), data=b"x" * 9_900)
    rejection = desk.transaction().reject(large, CommandRejected("r" * 5_000))
    assert (rejection.data, rejection.reason) == (b"", "r" * 2_000)


@pytest.mark.parametrize(
    ("reason", "text", "is_error"),
    [
        (CommandRejected("no", hint="wait"), "no (wait)", False),
        (VersionConflict("old", version=1), "old", False),
        (InvalidEvent("bad"), "bad", True),
        (ZeroDivisionError("a bug"), "ZeroDivisionError: a bug", True),
    ],
)
def test_rejection_has_the_reason_and_whether_it_is_an_error(
    desk: Desk, reason: Exception, text: str, is_error: bool
) -> None:
    rejection = desk.transaction().reject(envelope(Deposit(amount=1)), reason)
    assert (rejection.reason, rejection.is_error) == (text, is_error)
    assert rejection.data == b'{"amount":1}'
