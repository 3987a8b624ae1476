"""DescribeTransactions over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headrace.testing.wire import Wire
from tests.broker.requests import new_name
from tests.broker.transaction_requests import TransactionalProducer, eventually


@pytest.fixture
def writer(any_wire: Wire) -> TransactionalProducer:
    made = TransactionalProducer(any_wire, new_name("tx"))
    made.init()
    return made


def describe(wire: Wire, transactional_id: str) -> Any:
    (state,) = wire.request(
        DescribeTransactionsRequest(transactional_ids=(transactional_id,))
    ).transaction_states
    return state


def test_transaction_is_described_from_start_to_end(writer: TransactionalProducer, any_topic: str) -> None:
    name = writer.transactional_id
    assert describe(writer.wire, name).transaction_state == "Empty"
    writer.write(any_topic, b"a", partition=1)
    state = describe(writer.wire, name)
    assert (state.transaction_state, state.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert (state.producer_id, state.producer_epoch) == (writer.producer_id, writer.epoch)
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [(any_topic, (1,))]
    assert state.transaction_start_time_ms > 0
    writer.commit()
    assert eventually(lambda: describe(writer.wire, name).transaction_state, "CompleteCommit")


def test_unknown_transaction_cannot_be_described(any_wire: Wire) -> None:
    assert describe(any_wire, new_name("tx")).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
