"""DescribeProducers over the wire."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.testing.wire import Wire
from tests.broker.requests import new_name
from tests.broker.transaction_requests import TransactionalProducer, eventually


@pytest.fixture
def writer(any_wire: Wire) -> TransactionalProducer:
    made = TransactionalProducer(any_wire, new_name("tx"))
    made.init()
    return made


def test_partition_describes_producers_with_an_open_transaction(
    writer: TransactionalProducer, any_topic: str
) -> None:
    def producers() -> list[tuple[int, int, int, int]]:
        request = DescribeProducersRequest(topics=(TopicRequest(name=any_topic, partition_indexes=(0,)),))
        (partition,) = writer.wire.request(request).topics[0].partitions
        return [
            (one.producer_id, one.producer_epoch, one.last_sequence, one.current_txn_start_offset)
            for one in partition.active_producers
        ]

    writer.write(any_topic, b"a", b"b")
    assert producers() == [(writer.producer_id, writer.epoch, 1, 0)]
    writer.commit()
    assert eventually(lambda: [one[3] for one in producers()], [-1])


def test_unknown_partition_has_its_own_error(any_wire: Wire, any_topic: str) -> None:
    requested = TopicRequest(name=any_topic, partition_indexes=(1, 7))
    (topic,) = any_wire.request(DescribeProducersRequest(topics=(requested,))).topics
    assert {part.partition_index: part.error_code for part in topic.partitions} == {
        1: ErrorCode.NONE,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
