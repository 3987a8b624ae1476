"""DescribeTransactions, ListTransactions, DescribeProducers, WriteTxnMarkers: what tools for operators ask."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headrace.protocol.messages.list_transactions import ListTransactionsRequest
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


def describe(wire: Wire, transactional_id: str) -> Any:
    (state,) = wire.ask(DescribeTransactionsRequest(transactional_ids=(transactional_id,))).transaction_states
    return state


def listed(wire: Wire, *names: str, **filters: Any) -> list[str]:
    """The states of those that are listed, of these names."""
    answer = wire.ask(ListTransactionsRequest(**filters))
    assert answer.error_code == 0
    return [one.transaction_state for one in answer.transaction_states if one.transactional_id in names]


def test_a_transaction_is_described_from_its_begin_to_its_end(
    writer: TransactionalProducer, any_topic: str
) -> None:
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


def test_what_is_not_known_cannot_be_described(any_wire: Wire) -> None:
    assert describe(any_wire, new_name("tx")).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


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
    answer = wire.ask(ListTransactionsRequest(state_filters=("Sleeping",)))
    assert answer.unknown_state_filters == ("Sleeping",)
    writer.abort()


def test_a_partition_tells_which_producers_have_a_transaction_open(
    writer: TransactionalProducer, any_topic: str
) -> None:
    def producers() -> list[tuple[int, int, int, int]]:
        request = DescribeProducersRequest(topics=(TopicRequest(name=any_topic, partition_indexes=(0,)),))
        (partition,) = writer.wire.ask(request).topics[0].partitions
        return [
            (one.producer_id, one.producer_epoch, one.last_sequence, one.current_txn_start_offset)
            for one in partition.active_producers
        ]

    writer.write(any_topic, b"a", b"b")
    assert producers() == [(writer.producer_id, writer.epoch, 1, 0)]
    writer.commit()
    assert eventually(lambda: [one[3] for one in producers()], [-1])


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
        answer = writer.wire.ask(WriteTxnMarkersRequest(markers=(marker,)), version=1)
        code: int = answer.markers[0].topics[0].partitions[0].error_code
        return code

    writer.write(any_topic, b"a")
    assert end(new_name(), writer.epoch) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert end(any_topic, writer.epoch) == 0
    other = TransactionalProducer(writer.wire, new_name("tx"))
    other.init()
    other.write(any_topic, b"b")
    other.commit()
    assert eventually(lambda: committed_values(writer.wire, any_topic), [b"b"])
