"""A partition: appended records are read at their offsets, from any offset."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import (
    BatchTooLarge,
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    LogReadOnly,
    OutOfOrderSequence,
)
from headrace.records.batch import iterate_headers, read_header
from headrace.records.compression import Codec
from headrace.records.errors import InvalidBatch
from headrace.testing.manual_clock import ManualClock
from tests.log.batches import NOW_MS, batch, open_log, read_all, values

CONFIG = LogConfig(segment_bytes_max=400, index_interval_bytes=100, file_delete_delay_ms=1000)
SMALL = LogConfig(segment_bytes_max=2000, index_interval_bytes=200)


def test_new_log_is_empty(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    assert (log.start_offset, log.end_offset, log.durable_offset, len(log.segments)) == (0, 0, 0, 1)
    assert log.reader.read(0, bytes_max=100, end_offset=0, at_least_one=True) == b""


def test_offsets_follow_each_other(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first = log.append(batch(b"a", b"b", b"c"), now_ms=NOW_MS)
    second = log.append(batch(b"d"), now_ms=NOW_MS)
    assert (first.base_offset, first.last_offset, first.duplicate) == (0, 2, False)
    assert (second.base_offset, second.last_offset) == (3, 3)
    assert log.end_offset == 4
    assert values(read_all(log)) == [b"a", b"b", b"c", b"d"]
    assert values(read_all(log, 2)) == [b"c", b"d"]


def test_stored_bytes_are_those_sent_but_for_offset_and_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    sent = batch(b"x" * 100, codec=Codec.ZSTD)
    log.append(batch(b"first"), now_ms=NOW_MS)
    log.append(sent, now_ms=NOW_MS)
    stored = bytes(log.reader.read(1, bytes_max=1000, end_offset=2, at_least_one=True))
    assert stored[16:] == sent[16:]
    assert stored[8:12] == sent[8:12]
    header = read_header(stored)
    assert (header.base_offset, header.leader_epoch) == (1, log.leader_epoch)


def test_bad_batches_are_rejected_and_leave_no_trace(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(batch_bytes_max=1000))
    good = batch(b"good")
    flipped = bytearray(good)
    flipped[-1] ^= 1
    old_format = bytearray(good)
    old_format[16] = 1
    for bad, error in [
        (batch(b"x" * 2000), BatchTooLarge),
        (good[:-1], InvalidBatch),
        (good + b"x", InvalidBatch),
        (good[:30], InvalidBatch),
        (bytes(flipped), InvalidBatch),
        (bytes(old_format), InvalidRecord),
        (batch(b"later", timestamp_ms=NOW_MS + 3_600_001), InvalidTimestamp),
    ]:
        with pytest.raises(error):
            log.append(bad, now_ms=NOW_MS)
    assert (log.end_offset, log.segments.size_bytes) == (0, 0)
    assert log.append(good, now_ms=NOW_MS).base_offset == 0


def test_compacted_log_rejects_records_without_key(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(InvalidRecord):
        log.append(batch(b"no key"), now_ms=NOW_MS)
    assert log.append(batch(b"value", key=b"key"), now_ms=NOW_MS).base_offset == 0


def test_log_append_time_is_stamped(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(timestamp_type="LogAppendTime"))
    appended = log.append(batch(b"a", timestamp_ms=5), now_ms=NOW_MS + 7)
    assert appended.log_append_time_ms == NOW_MS + 7
    assert [record.timestamp_ms for record in read_all(log)] == [NOW_MS + 7]


def test_compression_of_the_topic_is_applied(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(compression=Codec.LZ4))
    log.append(batch(b"a" * 1000, codec=Codec.GZIP), now_ms=NOW_MS)
    log.append(batch(b"b" * 1000), now_ms=NOW_MS)
    stored = bytes(log.reader.read(0, bytes_max=10_000, end_offset=2, at_least_one=True))
    assert [header.compression for _, header in iterate_headers(stored)] == [Codec.LZ4, Codec.LZ4]
    assert values(read_all(log)) == [b"a" * 1000, b"b" * 1000]


def test_retried_batch_is_stored_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    sent = [batch(b"%d" % n, b"x", producer_id=9, producer_epoch=0, base_sequence=2 * n) for n in range(7)]
    for one in sent:
        log.append(one, now_ms=NOW_MS)
    for number in range(2, 7):
        again = log.append(sent[number], now_ms=NOW_MS)
        assert again.duplicate
        assert (again.base_offset, again.last_offset) == (2 * number, 2 * number + 1)
    assert log.end_offset == 14
    with pytest.raises(DuplicateSequence):
        log.append(sent[0], now_ms=NOW_MS)


def test_gap_in_sequence_and_old_epoch_are_rejected(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a", producer_id=9, producer_epoch=1, base_sequence=0), now_ms=NOW_MS)
    with pytest.raises(OutOfOrderSequence):
        log.append(batch(b"c", producer_id=9, producer_epoch=1, base_sequence=2), now_ms=NOW_MS)
    with pytest.raises(InvalidProducerEpoch):
        log.append(batch(b"b", producer_id=9, producer_epoch=0, base_sequence=1), now_ms=NOW_MS)
    with pytest.raises(OutOfOrderSequence):
        log.append(batch(b"b", producer_id=9, producer_epoch=2, base_sequence=1), now_ms=NOW_MS)
    log.append(batch(b"b", producer_id=9, producer_epoch=2, base_sequence=0), now_ms=NOW_MS)
    assert log.end_offset == 2


def test_closed_log_reopens_with_everything(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for number in range(100):
        log.append(
            batch(b"%d" % number, producer_id=1, producer_epoch=0, base_sequence=number), now_ms=NOW_MS
        )
    segments = len(log.segments)
    closed = log.close()
    with pytest.raises(LogReadOnly):
        log.append(batch(b"late"), now_ms=NOW_MS)
    again = open_log(tmp_path, SMALL, was_clean=True, recovery_offset=closed.end_offset)
    assert (again.end_offset, len(again.segments), again.leader_epoch) == (100, segments, log.leader_epoch)
    assert values(read_all(again)) == [b"%d" % number for number in range(100)]
    retried = again.append(batch(b"97", producer_id=1, producer_epoch=0, base_sequence=97), now_ms=NOW_MS)
    assert (retried.duplicate, retried.base_offset) == (True, 97)
    next_one = batch(b"100", producer_id=1, producer_epoch=0, base_sequence=100)
    assert again.append(next_one, now_ms=NOW_MS).base_offset == 100


def test_log_that_was_not_closed_reopens_with_every_record(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for number in range(100):
        log.append(
            batch(b"%d" % number, producer_id=1, producer_epoch=0, base_sequence=number), now_ms=NOW_MS
        )
    again = open_log(tmp_path, SMALL)
    assert (again.end_offset, again.durable_offset, again.leader_epoch) == (100, 100, log.leader_epoch + 1)
    assert values(read_all(again)) == [b"%d" % number for number in range(100)]
    retried = again.append(batch(b"97", producer_id=1, producer_epoch=0, base_sequence=97), now_ms=NOW_MS)
    assert (retried.duplicate, retried.base_offset) == (True, 97)


def open_files(directory: Path) -> int:
    links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    return sum(link.is_symlink() and str(directory) in os.readlink(link) for link in links)


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="counts descriptors where the system lists them"
)
def test_log_that_is_not_used_holds_no_descriptor(tmp_path: Path) -> None:
    log = open_log(
        tmp_path, LogConfig(segment_bytes_max=400, index_interval_bytes=100, closed_segments_open_max=2)
    )
    assert open_files(tmp_path) == 0
    for number in range(60):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    log.flush()
    assert len(read_all(log)) == 60
    assert open_files(tmp_path) <= 3
    log.checkpoint(NOW_MS)
    log.checkpoint(NOW_MS)
    assert open_files(tmp_path) <= 2
    log.append(batch(b"60"), now_ms=NOW_MS)
    assert len(read_all(log)) == 61
    closed = log.close()
    assert open_files(tmp_path) == 0
    for was_clean in (True, False):
        again = open_log(tmp_path, was_clean=was_clean, recovery_offset=closed.end_offset)
        assert open_files(tmp_path) == 0
        assert len(read_all(again)) == 61
        del again


def test_deletion_is_no_trouble_to_warn_of(tmp_path: Path) -> None:
    events: list[tuple[str, Mapping[str, object]]] = []
    log = open_log(tmp_path / "t-0", events=events)
    log.append(batch(b"a"), now_ms=NOW_MS)
    events.clear()
    log.delete()
    assert events == []


def test_deleted_partition_has_no_files_and_its_name_is_free(tmp_path: Path) -> None:
    directory = tmp_path / "clicks-0"
    log = open_log(directory, CONFIG)
    log.append(batch(b"a"), now_ms=NOW_MS)
    log.delete()
    assert list(tmp_path.iterdir()) == []
    assert open_log(directory, CONFIG).end_offset == 0


def test_idle_producers_expire(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    log = open_log(tmp_path, LogConfig(producer_id_expiration_ms=1000), clock=clock)
    log.append(batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0), now_ms=NOW_MS)
    log.append(batch(b"a", producer_id=2, producer_epoch=0, base_sequence=0), now_ms=NOW_MS + 500)
    log.checkpoint(NOW_MS + 1001)
    assert (1 in log.producers.by_id, 2 in log.producers.by_id) == (False, True)
