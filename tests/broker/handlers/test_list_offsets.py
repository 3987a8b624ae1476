"""ListOffsets over the wire, compared with Apache Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headrace.testing.wire import Wire
from tests.broker.requests import NOW_MS, batch, new_name, produce
from tests.broker.transaction_requests import TransactionalProducer

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
READ_COMMITTED = 1


def look_up(wire: Wire, topic: str, timestamp: int, version: int = 9, **changes: Any) -> Any:
    partition = ListOffsetsPartition(
        partition_index=changes.pop("partition", 0),
        timestamp=timestamp,
        current_leader_epoch=changes.pop("current_leader_epoch", -1),
    )
    wanted = ListOffsetsTopic(name=topic, partitions=(partition,))
    (response,) = (
        wire.request(ListOffsetsRequest(topics=(wanted,), **changes), version=version).topics[0].partitions
    )
    return response


@pytest.mark.parametrize("version", range(1, 10))
def test_start_and_end_of_a_log(any_wire: Wire, any_topic: str, version: int) -> None:
    produce(any_wire, any_topic, batch(b"a", b"b", b"c"))
    assert look_up(any_wire, any_topic, EARLIEST, version).offset == 0
    assert look_up(any_wire, any_topic, LATEST, version).offset == 3


def test_first_record_at_or_after_a_time(any_wire: Wire, any_topic: str) -> None:
    for number, value in enumerate((b"a", b"b", b"c")):
        produce(any_wire, any_topic, batch(value, timestamp_ms=NOW_MS + 10 * number))
    found = look_up(any_wire, any_topic, NOW_MS + 5)
    assert (found.offset, found.timestamp) == (1, NOW_MS + 10)
    assert look_up(any_wire, any_topic, NOW_MS + 21).offset == -1


def test_record_with_the_greatest_time(any_wire: Wire, any_topic: str) -> None:
    for offset_ms in (0, 30, 20):
        produce(any_wire, any_topic, batch(b"x", timestamp_ms=NOW_MS + offset_ms))
    found = look_up(any_wire, any_topic, MAX_TIMESTAMP)
    assert (found.offset, found.timestamp) == (1, NOW_MS + 30)


def test_reader_of_committed_data_ends_at_the_last_stable_offset(any_wire: Wire, any_topic: str) -> None:
    produce(any_wire, any_topic, batch(b"a"))
    writer = TransactionalProducer(any_wire, new_name("tx"))
    writer.init()
    writer.write(any_topic, b"b")
    assert look_up(any_wire, any_topic, LATEST).offset == 2
    assert look_up(any_wire, any_topic, LATEST, isolation_level=READ_COMMITTED).offset == 1
    writer.abort()


def test_unknown_partition_and_epoch_are_rejected(any_wire: Wire, any_topic: str) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look_up(any_wire, any_topic, LATEST, partition=7).error_code == unknown
    newer = look_up(any_wire, any_topic, LATEST, current_leader_epoch=1_000)
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
