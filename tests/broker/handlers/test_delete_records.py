"""DeleteRecords over the wire, compared with Apache Kafka."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.testing.wire import Wire
from tests.broker.requests import batch, create_topic, fetch, new_name, produce, read_all

TO_THE_END = -1


def delete(
    wire: Wire, topic: str, offset: int, *, partition: int = 0, version: int = 2
) -> DeleteRecordsPartitionResult:
    wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=(wanted,)),))
    (response,) = wire.request(request, version=version).topics[0].partitions
    found: DeleteRecordsPartitionResult = response
    return found


@pytest.mark.parametrize("version", range(3))
def test_log_starts_at_the_offset_afterwards(any_wire: Wire, any_topic: str, version: int) -> None:
    produce(any_wire, any_topic, batch(b"a", b"b", b"c"))
    assert delete(any_wire, any_topic, 2, version=version).low_watermark == 2
    assert [record.value for record in read_all(any_wire, any_topic, offset=2)] == [b"c"]
    assert fetch(any_wire, any_topic, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_end_of_the_log_deletes_all_records(any_wire: Wire, any_topic: str) -> None:
    produce(any_wire, any_topic, batch(b"a", b"b"))
    assert delete(any_wire, any_topic, TO_THE_END).low_watermark == 2
    assert read_all(any_wire, any_topic, offset=2) == []


def test_offset_before_the_start_changes_nothing(any_wire: Wire, any_topic: str) -> None:
    produce(any_wire, any_topic, batch(b"a", b"b"))
    delete(any_wire, any_topic, 1)
    assert delete(any_wire, any_topic, 0).low_watermark == 1


def test_offset_beyond_the_end_is_out_of_range(any_wire: Wire, any_topic: str) -> None:
    produce(any_wire, any_topic, batch(b"a"))
    assert delete(any_wire, any_topic, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert [record.value for record in read_all(any_wire, any_topic)] == [b"a"]


def test_compacted_topic_keeps_its_records(wire: Wire) -> None:
    name = new_name()
    create_topic(wire, name, cleanup_policy="compact")
    produce(wire, name, batch(b"a", key=b"k"))
    assert delete(wire, name, TO_THE_END).error_code == ErrorCode.POLICY_VIOLATION
    assert [record.value for record in read_all(wire, name)] == [b"a"]


def test_unknown_partition_is_rejected(wire: Wire, topic: str) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(wire, topic, 0, partition=7).error_code == unknown
    assert delete(wire, new_name(), 0).error_code == unknown
