"""A partition: appended records are read at their offsets, from any offset."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import HeadraceError
from headrace.log.config import LogConfig
from headrace.log.errors import (
    BatchTooLarge,
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    LogReadOnly,
    OutOfOrderSequence,
    StorageFailed,
)
from headrace.log.partition_log import PartitionLog
from headrace.records.batch import iterate_headers, read_header
from headrace.records.compression import Codec
from headrace.records.errors import InvalidBatch
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.manual_clock import ManualClock
from tests.log.batches import NOW_MS, NotSyncing, batch, open_log, read_all, values

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


@st.composite
def batches_of_clients(draw: st.DrawFn) -> list[bytes]:
    """Batches of two idempotent producers and of others, some of them sent again, out of order, or bad."""
    sent: list[bytes] = []
    next_sequence = {1: 0, 2: 0}
    for _ in range(draw(st.integers(1, 25))):
        kind = draw(
            st.sampled_from(["next", "next", "next", "plain", "plain", "again", "gap", "corrupt", "early"])
        )
        producer = draw(st.sampled_from([1, 1, 2]))
        content = [draw(st.binary(max_size=60)) for _ in range(draw(st.integers(1, 3)))]
        if kind == "again" and sent:
            sent.append(draw(st.sampled_from(sent)))
        elif kind in ("next", "gap"):
            sequence = next_sequence[producer] + (kind == "gap")
            at_ms = NOW_MS - draw(st.integers(0, 100))
            sent.append(
                batch(
                    *content,
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=sequence,
                    timestamp_ms=at_ms,
                )
            )
            next_sequence[producer] += len(content) if kind == "next" else 0
        else:
            made = bytearray(batch(*content, timestamp_ms=NOW_MS + (kind == "early") * 3_600_001))
            made[-1] ^= kind == "corrupt"
            sent.append(bytes(made))
    return sent


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(),
        LogConfig(segment_bytes_max=700, index_interval_bytes=100),
        LogConfig(segment_ms=50, index_interval_bytes=100, index_bytes_max=16),
        LogConfig(timestamp_type="LogAppendTime"),
        LogConfig(compression=Codec.ZSTD),
    ],
    ids=["defaults", "small segments", "small indexes", "append time", "recompressed"],
)
@given(batches=batches_of_clients(), sizes=st.lists(st.integers(1, 8), min_size=25, max_size=25))
def test_batches_that_are_appended_together_are_stored_as_one_by_one(
    config: LogConfig, batches: list[bytes], sizes: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        single = open_log(Path(folder) / "single", config, files=NotSyncing())
        together = open_log(Path(folder) / "together", config, files=NotSyncing())
        expected = []
        for one in batches:
            try:
                expected.append(repr(single.append(one, now_ms=NOW_MS)))
            except HeadraceError as error:
                expected.append(repr(error))
        outcomes = []
        position = 0
        for size in sizes:
            outcomes += together.append_all(batches[position : position + size], now_ms=NOW_MS)
            position += size
        assert [repr(outcome) for outcome in outcomes] == expected
        for log in (single, together):
            log.close()
        assert files_of(together) == files_of(single)


def files_of(log: PartitionLog) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(log.directory).iterdir()}


def test_batches_of_one_producer_are_written_by_one_system_call(tmp_path: Path) -> None:
    files = FailingFileSystem()
    log = open_log(tmp_path, files=files)
    log.append(numbered(0), now_ms=NOW_MS)
    log.append_all([numbered(number) for number in range(1, 6)], now_ms=NOW_MS)
    assert [operation for operation, path in files.operations if path.endswith(".log")].count("write") == 2
    assert values(read_all(log)) == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("bytes_written_first", [0, 100])
def test_batches_whose_common_write_fails_are_appended_one_by_one(
    tmp_path: Path, bytes_written_first: int
) -> None:
    files = FailingFileSystem()
    log = open_log(tmp_path, files=files)
    log.append(numbered(0), now_ms=NOW_MS)
    files.fail("write", "*.log", bytes_written_first=bytes_written_first)
    outcomes = log.append_all([numbered(number) for number in range(1, 4)], now_ms=NOW_MS)
    assert [getattr(outcome, "base_offset", None) for outcome in outcomes] == [1, 2, 3]
    files.fail("write", "*.log", times=None, bytes_written_first=bytes_written_first)
    failed = log.append_all([numbered(number) for number in range(4, 7)], now_ms=NOW_MS)
    assert [type(outcome) for outcome in failed] == [StorageFailed, OutOfOrderSequence, OutOfOrderSequence]
    files.heal()
    log.append_all([numbered(number) for number in range(4, 7)], now_ms=NOW_MS)
    assert values(read_all(log)) == [b"%d" % number for number in range(7)]


def test_batches_are_not_appended_together_to_a_log_that_became_read_only(tmp_path: Path) -> None:
    files = FailingFileSystem()
    log = open_log(tmp_path, files=files)
    log.append(numbered(0), now_ms=NOW_MS)
    files.fail("write", "*.log")
    files.fail("truncate", "*.log")
    outcomes = log.append_all([numbered(number) for number in range(1, 4)], now_ms=NOW_MS)
    assert [type(outcome) for outcome in outcomes] == [LogReadOnly] * 3
    assert log.end_offset == 1


def numbered(number: int) -> bytes:
    """The batch of a producer with this sequence number."""
    return batch(b"%d" % number, producer_id=1, producer_epoch=0, base_sequence=number)


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
