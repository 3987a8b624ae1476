"""A disk that is full, damaged or suddenly without power: no acknowledged record is lost."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import LogReadOnly, StorageFailed
from headrace.log.partition_log import PartitionLog
from headrace.testing.failing_filesystem import FailingFileSystem, FileOperation, PowerLost
from tests.log.batches import NOW_MS, NotSyncing, batch, open_log, read_all, values

CONFIG = LogConfig(segment_bytes_max=250, index_interval_bytes=60, file_delete_delay_ms=0)


def append(log: PartitionLog, number: int) -> None:
    log.append(batch(b"%d" % number, producer_id=3, producer_epoch=0, base_sequence=number), now_ms=NOW_MS)


@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("bytes_written_first", [0, 1, 16, 60])
def test_failed_write_is_undone_and_the_next_succeeds(
    tmp_path: Path, error_number: int, bytes_written_first: int
) -> None:
    files = FailingFileSystem()
    log = open_log(tmp_path, files=files)
    append(log, 0)
    size_bytes = log.segments.size_bytes
    files.fail("write", "*.log", error_number=error_number, bytes_written_first=bytes_written_first)
    with pytest.raises(StorageFailed, match="disk"):
        append(log, 1)
    assert (log.end_offset, log.segments.size_bytes, log.read_only_reason) == (1, size_bytes, None)
    assert (tmp_path / "00000000000000000000.log").stat().st_size == size_bytes
    append(log, 1)
    assert values(read_all(log)) == [b"0", b"1"]
    assert values(read_all(open_log(tmp_path))) == [b"0", b"1"]


def test_failed_write_that_cannot_be_undone_makes_the_log_read_only(tmp_path: Path) -> None:
    files = FailingFileSystem()
    log = open_log(tmp_path, files=files)
    append(log, 0)
    files.fail("write", "*.log", bytes_written_first=10)
    files.fail("truncate", "*.log")
    with pytest.raises(StorageFailed):
        append(log, 1)
    with pytest.raises(LogReadOnly):
        append(log, 1)
    assert values(read_all(log)) == [b"0"]
    assert values(read_all(open_log(tmp_path))) == [b"0"]


@pytest.mark.parametrize(
    ("operation", "pattern"),
    [
        ("create", "*.log"),
        ("create", "*.index"),
        ("write", "*index"),
        ("truncate", "*"),
        ("create", "*.timeindex"),
    ],
)
@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EIO])
def test_failed_roll_leaves_the_log_as_it_was(
    tmp_path: Path, operation: FileOperation, pattern: str, error_number: int
) -> None:
    files = FailingFileSystem()
    log = open_log(tmp_path, CONFIG, files=files)
    written = 0
    while log.segments.size_bytes + 80 < CONFIG.segment_bytes_max:
        append(log, written)
        written += 1
    failure = files.fail(operation, pattern, error_number=error_number)
    with pytest.raises(StorageFailed):
        append(log, written)
    assert failure.happened == 1
    assert (log.end_offset, len(log.segments), log.read_only_reason) == (written, 1, None)
    assert len(read_all(log)) == written
    append(log, written)
    assert (log.end_offset, len(log.segments)) == (written + 1, 2)
    assert len(read_all(log)) == written + 1
    again = open_log(tmp_path, CONFIG)
    assert (len(read_all(again)), again.read_only_reason) == (written + 1, None)


def test_failed_fsync_is_never_retried(tmp_path: Path) -> None:
    files = FailingFileSystem()
    log = open_log(tmp_path, files=files)
    append(log, 0)
    log.flush()
    append(log, 1)
    files.fail("sync", "*.log")
    flush = log.flusher.begin()
    with pytest.raises(OSError, match="Input/output error") as caught:
        flush.sync()
    log.flusher.fail(caught.value)
    syncs = files.operations.count(("sync", str(tmp_path / "00000000000000000000.log")))
    assert log.durable_offset == 1
    with pytest.raises(LogReadOnly):
        append(log, 2)
    with pytest.raises(LogReadOnly):
        log.close()
    assert files.operations.count(("sync", str(tmp_path / "00000000000000000000.log"))) == syncs
    assert log.checkpoint(NOW_MS) == 1


def test_flush_in_flight_when_another_failed_is_not_durable(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 0)
    log.flusher.begin()
    append(log, 1)
    second = log.flusher.begin()
    first_error = OSError(errno.EIO, "broken")
    log.flusher.fail(first_error)
    second.sync()
    log.flusher.finish(second)
    assert log.durable_offset == 0


def test_damaged_read_is_an_error_and_not_an_empty_response(tmp_path: Path) -> None:
    files = FailingFileSystem()
    log = open_log(tmp_path, files=files)
    append(log, 0)
    files.fail("read", "*.log")
    with pytest.raises(OSError, match="Input/output error"):
        log.reader.read(0, bytes_max=1000, end_offset=1, at_least_one=True)
    assert values(read_all(log)) == [b"0"]


@pytest.mark.parametrize(("operation", "pattern"), [("write", "*index"), ("write_whole", "*.snapshot")])
def test_full_disk_at_a_checkpoint_costs_nothing_but_reading(
    tmp_path: Path, operation: FileOperation, pattern: str
) -> None:
    files = FailingFileSystem()
    log = open_log(tmp_path, CONFIG, files=files)
    for number in range(20):
        append(log, number)
    log.flush()
    failure = files.fail(operation, pattern, error_number=errno.ENOSPC)
    recovery_offset = log.checkpoint(NOW_MS)
    assert (failure.happened, recovery_offset, log.read_only_reason) == (1, 20, None)
    again = open_log(tmp_path, CONFIG, recovery_offset=recovery_offset)
    assert values(read_all(again)) == [b"%d" % number for number in range(20)]
    append(again, 20)


def lifetime(log: PartitionLog, acknowledged: list[int]) -> None:
    """All that a log does in its life; offsets become acknowledged once they are flushed."""
    for number in range(12):
        append(log, number)
        if number % 2:
            log.flush()
            acknowledged.append(number)
        if number == 5:
            log.checkpoint(NOW_MS)
        if number == 8:
            log.retention.delete_records_before(3)
            log.retired.remove_due(NOW_MS)
    log.close()


def survives(directory: Path, acknowledged: list[int], recovery_offset: int) -> None:
    log = open_log(directory, CONFIG, files=NotSyncing(), recovery_offset=recovery_offset)
    assert log.read_only_reason is None
    found = values(read_all(log))
    end = acknowledged[-1] + 1 if acknowledged else 0
    first = log.start_offset
    assert found == [b"%d" % number for number in range(first, log.end_offset)]
    assert log.end_offset >= end
    append(log, log.end_offset)
    assert values(read_all(log))[-1] == b"%d" % (log.end_offset - 1)


def without_loss(files: FailingFileSystem) -> None:
    """A process that is killed: the page cache lives on."""


@pytest.mark.parametrize(
    "aftermath", [without_loss, FailingFileSystem.drop_unsynced], ids=["killed", "power lost"]
)
def test_crash_before_any_operation_keeps_acknowledged_records(
    tmp_path: Path, aftermath: Callable[[FailingFileSystem], None]
) -> None:
    step = 0
    finished = False
    while not finished:
        directory = tmp_path / "log"
        files = FailingFileSystem(files=NotSyncing())
        files.lose_power_at(step)
        acknowledged: list[int] = []
        try:
            lifetime(open_log(directory, CONFIG, files=files), acknowledged)
            finished = True
        except PowerLost:
            step += 1
        aftermath(files)
        survives(directory, acknowledged, recovery_offset=0)
        shutil.rmtree(directory)
    assert step > 60


def test_crash_before_any_operation_of_recovery_can_be_recovered(tmp_path: Path) -> None:
    original = tmp_path / "original"
    log = open_log(original, CONFIG, files=NotSyncing())
    for number in range(12):
        append(log, number)
    active = max(original.glob("*.log"))
    active.write_bytes(active.read_bytes()[:-1])
    step = 0
    finished = False
    while not finished:
        directory = tmp_path / "log"
        shutil.copytree(original, directory)
        files = FailingFileSystem(files=NotSyncing())
        files.lose_power_at(step)
        try:
            open_log(directory, CONFIG, files=files)
            finished = True
        except PowerLost:
            step += 1
        again = open_log(directory, CONFIG, files=NotSyncing())
        assert values(read_all(again)) == [b"%d" % number for number in range(11)]
        shutil.rmtree(directory)
    assert step > 5
