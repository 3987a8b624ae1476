"""WriteTxnMarkers over the wire."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from headrace.testing.wire import Wire
from tests.broker.requests import new_name
from tests.broker.transaction_requests import TransactionalProducer, committed_values, eventually


@pytest.fixture
def writer(any_wire: Wire) -> TransactionalProducer:
    made = TransactionalProducer(any_wire, new_name("tx"))
    made.init()
    return made


def test_an_operator_may_end_a_transaction_in_a_partition(
    writer: TransactionalProducer, any_topic: str
) -> None:
    def end(topic: str, epoch: int) -> int:
        marker = WritableTxnMarker(
            producer_id=writer.producer_id,
            producer_epoch=epoch,
            transaction_result=False,
            topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=(0,)),),
        )
        response = writer.wire.request(WriteTxnMarkersRequest(markers=(marker,)), version=1)
        code: int = response.markers[0].topics[0].partitions[0].error_code
        return code

    writer.write(any_topic, b"a")
    assert end(new_name(), writer.epoch) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert end(any_topic, writer.epoch) == 0
    other = TransactionalProducer(writer.wire, new_name("tx"))
    other.init()
    other.write(any_topic, b"b")
    other.commit()
    assert eventually(lambda: committed_values(writer.wire, any_topic), [b"b"])


def test_marker_of_an_older_epoch_is_fenced(writer: TransactionalProducer, any_topic: str) -> None:
    writer.write(any_topic, b"a")
    old_epoch = writer.epoch
    writer.init()
    writer.write(any_topic, b"b")
    marker = WritableTxnMarker(
        producer_id=writer.producer_id,
        producer_epoch=old_epoch,
        transaction_result=True,
        topics=(WritableTxnMarkerTopic(name=any_topic, partition_indexes=(0,)),),
    )
    response = writer.wire.request(WriteTxnMarkersRequest(markers=(marker,)), version=1)
    (partition,) = response.markers[0].topics[0].partitions
    assert partition.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    writer.commit()
    assert eventually(lambda: committed_values(writer.wire, any_topic), [b"b"])
