"""AddOffsetsToTxn over the wire, compared with Apache Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headrace.testing.wire import Wire
from tests.broker.requests import new_name
from tests.broker.transaction_requests import TransactionalProducer


@pytest.fixture
def writer(any_wire: Wire) -> TransactionalProducer:
    made = TransactionalProducer(any_wire, new_name("tx"))
    made.init()
    return made


def add(writer: TransactionalProducer, group: str, version: int = 3, **changes: Any) -> int:
    fields = {
        "transactional_id": writer.transactional_id,
        "producer_id": writer.producer_id,
        "producer_epoch": writer.epoch,
        "group_id": group,
    }
    code: int = writer.request(AddOffsetsToTxnRequest(**{**fields, **changes}), version).error_code
    return code


@pytest.mark.parametrize("version", range(4))
def test_partition_of_the_offsets_belongs_to_the_transaction(
    writer: TransactionalProducer, any_group: str, version: int
) -> None:
    assert add(writer, any_group, version) == 0
    requested = DescribeTransactionsRequest(transactional_ids=(writer.transactional_id,))
    (state,) = writer.wire.request(requested).transaction_states
    assert state.transaction_state == "Ongoing"
    assert [topic.topic for topic in state.topics] == ["__consumer_offsets"]
    writer.abort()


def test_older_epoch_is_fenced(writer: TransactionalProducer, any_group: str) -> None:
    old_epoch = writer.epoch
    writer.init()
    assert add(writer, any_group, 2, producer_epoch=old_epoch) == ErrorCode.PRODUCER_FENCED
    assert add(writer, any_group, 1, producer_epoch=old_epoch) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_unknown_producer_is_rejected(writer: TransactionalProducer, any_group: str) -> None:
    rejected = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert add(writer, any_group, producer_id=writer.producer_id + 100_000) == rejected
    assert add(writer, any_group, transactional_id=new_name("tx")) == rejected
