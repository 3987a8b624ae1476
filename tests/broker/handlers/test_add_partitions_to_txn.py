"""AddPartitionsToTxn over the wire, and the writes that it allows."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headrace.testing.wire import Wire
from tests.broker.requests import new_name, only_partition, produce_request
from tests.broker.transaction_requests import TransactionalProducer, eventually, last_stable_offset


@pytest.fixture
def writer(any_wire: Wire) -> TransactionalProducer:
    made = TransactionalProducer(any_wire, new_name("tx"))
    made.init()
    return made


@pytest.mark.parametrize("version", range(4))
def test_partitions_may_be_added_more_than_once(
    writer: TransactionalProducer, any_topic: str, version: int
) -> None:
    assert writer.add(any_topic, 0, 1, version=version) == [0, 0]
    assert writer.add(any_topic, 1, version=version) == [0]


def test_nothing_is_added_if_one_of_the_partitions_does_not_exist(
    writer: TransactionalProducer, any_topic: str
) -> None:
    assert sorted(writer.add(any_topic, 0, 7)) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    ]
    assert writer.send(any_topic, b"a", version=11).error_code == ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.parametrize(
    ("version", "error"),
    [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_write_outside_of_a_transaction_is_rejected_and_opens_none(
    writer: TransactionalProducer, any_topic: str, version: int, error: ErrorCode
) -> None:
    assert writer.send(any_topic, b"never added", version=version).error_code == error
    writer.add(any_topic, 1)
    assert writer.send(any_topic, b"another one was", version=version).error_code == error
    assert last_stable_offset(writer.wire, any_topic) == 0


def test_a_late_write_after_the_end_is_rejected(writer: TransactionalProducer, any_topic: str) -> None:
    writer.write(any_topic, b"a")
    writer.commit()
    assert eventually(lambda: last_stable_offset(writer.wire, any_topic), 2)
    assert writer.send(any_topic, b"late", version=9).error_code == ErrorCode.INVALID_TXN_STATE
    assert last_stable_offset(writer.wire, any_topic) == 2


def test_a_transactional_batch_without_a_transactional_id_is_rejected(
    writer: TransactionalProducer, any_topic: str
) -> None:
    writer.add(any_topic)
    request = produce_request(any_topic, writer.batch(any_topic, b"whose?"))
    assert only_partition(writer.wire.request(request, version=11)).error_code != 0
    assert last_stable_offset(writer.wire, any_topic) == 0


def test_unknown_member_and_old_epoch_are_rejected(writer: TransactionalProducer, any_topic: str) -> None:
    old = TransactionalProducer(writer.wire, writer.transactional_id)
    old.use(writer.producer_id, writer.epoch)
    writer.init()
    assert old.add(any_topic, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert old.add(any_topic, version=3) == [ErrorCode.PRODUCER_FENCED]
    old.use(writer.producer_id + 1_000_000, 0)
    assert old.add(any_topic) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


def test_verify_only_checks_whether_partitions_are_in_the_transaction(
    writer: TransactionalProducer, any_topic: str
) -> None:
    writer.add(any_topic, 1)
    requested = AddPartitionsToTxnTransaction(
        transactional_id=writer.transactional_id,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        verify_only=True,
        topics=(AddPartitionsToTxnTopic(name=any_topic, partitions=(0, 1)),),
    )
    response = writer.wire.request(AddPartitionsToTxnRequest(transactions=(requested,)), version=5)
    (result,) = response.results_by_transaction
    (topic,) = result.topic_results
    assert {one.partition_index: one.partition_error_code for one in topic.results_by_partition} == {
        0: ErrorCode.TRANSACTION_ABORTABLE,
        1: 0,
    }
