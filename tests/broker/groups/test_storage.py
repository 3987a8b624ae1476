"""Groups and offsets as records: they are read as written, and have Kafka's formats."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.broker.groups import storage
from headrace.broker.groups.offsets import CommittedOffset, TopicPartition
from headrace.broker.groups.state import Group, GroupState, Member
from headrace.broker.state_topic import KeyValue, read_state
from headrace.clock import SystemClock
from headrace.log.checkpoints import LogCheckpoint
from headrace.log.config import LogConfig
from headrace.log.filesystem import DiskFileSystem
from headrace.log.partition_log import PartitionLog
from headrace.records.record import Record, encode_batch
from tests.broker.groups.simulation import offers

NOW_MS = 1_700_000_000_000
A0 = TopicPartition("a", 0)
OFFSET = CommittedOffset(offset=7, leader_epoch=2, metadata="«note»", committed_at_ms=NOW_MS)
MEMBER = Member(
    member_id="c-1",
    instance_id="static",
    client_id="c",
    client_host="/127.0.0.1",
    session_timeout_ms=6_000,
    rebalance_timeout_ms=9_000,
    protocols=offers("range", metadata=b"subscription"),
    assignment=b"assignment",
)
STABLE = Group(
    group_id="g",
    state=GroupState.STABLE,
    state_since_ms=NOW_MS,
    generation=4,
    protocol_type="consumer",
    protocol_name="range",
    leader_id="c-1",
).put(MEMBER)


def contents(folder: Path, *batches: Iterable[KeyValue]) -> storage.Contents:
    """The contents of a log with these records."""
    log = PartitionLog.open(
        str(folder / "__consumer_offsets-0"),
        LogConfig(),
        LogCheckpoint(was_clean=True),
        files=DiskFileSystem(),
        clock=SystemClock(),
    )
    for entries in batches:
        records = [
            Record(offset=index, timestamp_ms=NOW_MS, key=entry.key, value=entry.value)
            for index, entry in enumerate(entries)
        ]
        log.append(encode_batch(records), now_ms=NOW_MS, from_client=False)
    found = read_state(log, storage.Contents(), 1 << 20)
    log.close()
    return found


def test_group_and_its_offsets_are_read_as_they_were_written(tmp_path: Path) -> None:
    expiring = CommittedOffset(
        offset=1, leader_epoch=-1, metadata="", committed_at_ms=NOW_MS, expires_at_ms=NOW_MS + 5
    )
    a1 = TopicPartition("a", 1)
    written = [
        storage.group_record(STABLE),
        storage.offset_record("g", A0, OFFSET),
        storage.offset_record("g", a1, expiring),
    ]
    found = contents(tmp_path, written)
    assert found.groups == {"g": STABLE}
    assert dict(found.offsets.of("g")) == {A0: OFFSET, a1: expiring}


def test_last_record_of_a_key_counts_and_a_tombstone_removes(tmp_path: Path) -> None:
    later = CommittedOffset(offset=9, leader_epoch=2, metadata="", committed_at_ms=NOW_MS)
    found = contents(
        tmp_path,
        [storage.offset_record("g", A0, OFFSET), storage.offset_record("h", A0, OFFSET)],
        [storage.offset_record("g", A0, later), storage.group_record(STABLE)],
        [storage.offset_tombstone("h", A0)],
    )
    assert dict(found.offsets.of("g")) == {A0: later}
    assert dict(found.offsets.of("h")) == {}
    assert set(found.groups) == {"g"}


def test_deleted_group_stays_deleted(tmp_path: Path) -> None:
    found = contents(
        tmp_path,
        [storage.group_record(STABLE), storage.offset_record("g", A0, OFFSET)],
        [storage.offset_tombstone("g", A0), storage.group_tombstone("g")],
    )
    assert not found.groups


def test_client_that_only_commits_has_an_empty_group(tmp_path: Path) -> None:
    found = contents(tmp_path, [storage.offset_record("simple", A0, OFFSET)])
    assert found.groups["simple"].state is GroupState.EMPTY
    assert found.groups["simple"].protocol_type is None


def test_records_of_unknown_kinds_are_skipped(tmp_path: Path) -> None:
    found = contents(
        tmp_path,
        [KeyValue(b"\x00\x03newer kind", b"?"), KeyValue(b"", b"?")],
        [
            KeyValue(storage.offset_record("g", A0, OFFSET).key, b"\0\x63"),
            storage.group_record(STABLE),
        ],
    )
    assert found.groups == {"g": STABLE}
    assert len(found.offsets) == 0


def test_records_are_those_of_kafka() -> None:
    offset = storage.offset_record("g", A0, OFFSET)
    assert offset.key == b"\0\x01\0\x01g\0\x01a\0\0\0\0"
    metadata = "«note»".encode()
    assert offset.value == (
        b"\0\x03"
        + (7).to_bytes(8, "big")
        + (2).to_bytes(4, "big")
        + b"\0\x08"
        + metadata
        + NOW_MS.to_bytes(8, "big")
    )
    group = storage.group_record(STABLE)
    assert group.key == b"\0\x02\0\x01g"
    assert (group.value or b"")[:12] == b"\0\x03\0\x08consumer"
