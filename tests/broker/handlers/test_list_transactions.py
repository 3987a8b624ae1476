"""ListTransactions over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_transactions import ListTransactionsRequest
from headrace.testing.wire import Wire
from tests.broker.requests import new_name
from tests.broker.transaction_requests import TransactionalProducer


@pytest.fixture
def writer(any_wire: Wire) -> TransactionalProducer:
    made = TransactionalProducer(any_wire, new_name("tx"))
    made.init()
    return made


def listed(wire: Wire, *names: str, **filters: Any) -> list[str]:
    """The states of those that are listed, of these names."""
    response = wire.request(ListTransactionsRequest(**filters))
    assert response.error_code == 0
    return [one.transaction_state for one in response.transaction_states if one.transactional_id in names]


def test_transactions_are_listed_by_state_producer_duration_and_pattern(
    writer: TransactionalProducer, any_topic: str
) -> None:
    wire, name = writer.wire, writer.transactional_id
    writer.write(any_topic, b"a")
    assert listed(wire, name) == ["Ongoing"]
    assert listed(wire, name, state_filters=("Ongoing", "Empty")) == ["Ongoing"]
    assert listed(wire, name, state_filters=("CompleteCommit",)) == []
    assert listed(wire, name, producer_id_filters=(writer.producer_id,)) == ["Ongoing"]
    assert listed(wire, name, producer_id_filters=(writer.producer_id + 100_000,)) == []
    assert listed(wire, name, duration_filter=3_600_000) == []
    assert listed(wire, name, transactional_id_pattern="tx-.*") == ["Ongoing"]
    assert listed(wire, name, transactional_id_pattern="other-.*") == []
    response = wire.request(ListTransactionsRequest(state_filters=("Sleeping",)))
    assert response.unknown_state_filters == ("Sleeping",)
    writer.abort()


def test_pattern_that_is_no_regular_expression_is_rejected(any_wire: Wire) -> None:
    response = any_wire.request(ListTransactionsRequest(transactional_id_pattern="("))
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
