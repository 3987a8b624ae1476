"""Which records a target gets, and what a filter does with records that it can't be evaluated for."""

from __future__ import annotations

import pytest

from headrace.queue.message import MessageId
from headrace.webhooks.outgoing.message import REDRIVEN_FOR_HEADER, Outgoing
from headrace.webhooks.outgoing.selection import Selection
from tests.webhooks.outgoing.conftest import target_of


def record(value: bytes | None, *headers: tuple[str, bytes | None]) -> Outgoing:
    return Outgoing(
        message_id="m", origin=MessageId("t", 0, 0), timestamp_ms=0, key=None, value=value, headers=headers
    )


def selection(filter: str = "", name: str = "big") -> Selection:
    return Selection(target_of("orders", "http://127.0.0.1:8080/", name=name, filter=filter))


@pytest.mark.parametrize(
    ("value", "is_wanted"),
    [
        (b'{"order": {"amount": 101}}', True),
        (b'{"order": {"amount": 100}}', False),
        (b'{"order": {}}', False),
        (b"{}", False),
        (None, False),
    ],
)
def test_records_that_match_the_filter_are_wanted(value: bytes | None, is_wanted: bool) -> None:
    message = record(value)
    assert selection("order.amount > 100").wants(message) is is_wanted
    assert message.problem == ""


def test_without_a_filter_every_record_is_wanted() -> None:
    assert selection().wants(record(None))
    assert selection().wants(record(b"no JSON"))


@pytest.mark.parametrize("value", [b"no JSON", b"[1]", b"\xff", b'{"amount": "many"}'])
def test_record_that_the_filter_can_not_be_evaluated_for_has_a_problem(value: bytes) -> None:
    message = record(value)
    assert selection("amount > 100").wants(message)
    assert message.problem.startswith("the filter can't be evaluated: ")


def test_redriven_record_is_for_its_own_target_only() -> None:
    redriven = record(b"{}", (REDRIVEN_FOR_HEADER, b"big"))
    assert selection(name="big").wants(redriven)
    assert not selection(name="small").wants(redriven)
