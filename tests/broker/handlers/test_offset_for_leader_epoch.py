"""OffsetForLeaderEpoch over the wire: where an epoch ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.requests import batch, create_topic, new_name, produce


def epoch_end(wire: Wire, topic: str, epoch: int, *, version: int = 4, **changes: Any) -> Any:
    wanted = OffsetForLeaderPartition(**{"partition": 0, "leader_epoch": epoch, **changes})
    requested = (OffsetForLeaderTopic(topic=topic, partitions=(wanted,)),)
    response = wire.request(OffsetForLeaderEpochRequest(topics=requested), version=version)
    (partition,) = response.topics[0].partitions
    return partition


@pytest.mark.parametrize("version", range(2, 5))
def test_current_epoch_ends_at_the_end_of_the_log(wire: Wire, topic: str, version: int) -> None:
    produce(wire, topic, batch(b"a", b"b"))
    found = epoch_end(wire, topic, 0, version=version)
    assert (found.leader_epoch, found.end_offset, found.error_code) == (0, 2, 0)


def test_epoch_before_a_crash_ends_where_the_next_one_starts(
    start_broker: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    broker = start_broker(data_dir=tmp_path)
    wire = connect(broker)
    create_topic(wire, "t")
    produce(wire, "t", batch(b"a", b"b"))
    broker.stop()
    (tmp_path / ".kafka_cleanshutdown").unlink()  # what a crash leaves
    wire = connect(start_broker(data_dir=tmp_path))
    produce(wire, "t", batch(b"c"))
    assert (epoch_end(wire, "t", 0).leader_epoch, epoch_end(wire, "t", 0).end_offset) == (0, 2)
    assert (epoch_end(wire, "t", 1).leader_epoch, epoch_end(wire, "t", 1).end_offset) == (1, 3)


def test_unknown_partition_and_newer_epoch_are_rejected(wire: Wire, topic: str) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert epoch_end(wire, new_name(), 0).error_code == unknown
    assert epoch_end(wire, topic, 0, partition=7).error_code == unknown
    newer = epoch_end(wire, topic, 0, current_leader_epoch=1_000)
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
