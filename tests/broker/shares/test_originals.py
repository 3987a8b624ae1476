"""Records that are read again for their dead letters: within bounds, also from invalid batches."""

from __future__ import annotations

import errno
import tracemalloc
from pathlib import Path

import pytest

from headrace.broker.shares.originals import Original, originals
from headrace.log.config import LogConfig
from headrace.log.partition_log import PartitionLog
from headrace.records.batch import pack_batch, read_header
from headrace.records.compression import Codec
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.log.batches import NOW_MS, batch, open_log


def log_of(path: Path, *batches: bytes, files: FailingFileSystem | None = None) -> PartitionLog:
    log = open_log(path / "t-0", files=files)
    for one in batches:
        log.append(one, now_ms=NOW_MS)
    return log


def read(log: PartitionLog, offsets: list[int]) -> list[Original]:
    found = list(originals(log, offsets))
    assert [one.record.offset for one in found] == offsets
    return found


def values(found: list[Original]) -> list[bytes | None]:
    return [one.record.value for one in found]


def problems(found: list[Original]) -> list[bool]:
    return [bool(one.problem) for one in found]


def test_records_come_by_their_offsets_from_all_batches(tmp_path: Path) -> None:
    log = log_of(tmp_path, batch(b"0", b"1", b"2"), batch(b"3"), batch(b"4", b"5", codec=Codec.GZIP))
    found = read(log, [0, 2, 3, 5])
    assert values(found) == [b"0", b"2", b"3", b"5"]
    assert problems(found) == [False] * 4


def test_batch_is_read_once_for_all_its_offsets(tmp_path: Path) -> None:
    files = FailingFileSystem()
    log = log_of(tmp_path, batch(*(b"x" for _ in range(100))), files=files)

    def reads_for(offsets: list[int]) -> int:
        files.reads.clear()
        read(log, offsets)
        return len(files.reads)

    reads_for([0])  # from now on the log knows where it lies
    assert reads_for(list(range(0, 100, 2))) == reads_for([0])


def test_invalid_batch_affects_only_its_own_records(tmp_path: Path) -> None:
    nonsense = pack_batch(read_header(batch(b"x", b"x")), b"nothing that looks like two records")
    found = read(log_of(tmp_path, batch(b"0"), nonsense, batch(b"3")), [0, 1, 2, 3])
    assert values(found) == [b"0", None, None, b"3"]
    assert problems(found) == [False, True, True, False]


def test_records_before_the_invalid_bytes_of_a_batch_are_read(tmp_path: Path) -> None:
    sound = batch(b"0", b"1", b"2")
    torn = pack_batch(read_header(sound), sound[61:-2])
    assert values(read(log_of(tmp_path, torn), [0, 1, 2])) == [b"0", b"1", None]


@pytest.mark.parametrize("bounds", [LogConfig(decompressed_bytes_max=50), LogConfig(batch_records_max=9)])
def test_batch_over_a_bound_is_not_decompressed(tmp_path: Path, bounds: LogConfig) -> None:
    big = batch(*(b"x" for _ in range(10)), codec=Codec.ZSTD)
    log = log_of(tmp_path, big, batch(b"10"))
    log.reconfigure(bounds)
    found = read(log, [0, 9, 10])
    assert values(found) == [None, None, b"10"]
    assert problems(found) == [True, True, False]


def test_one_record_of_many_takes_the_memory_of_one(tmp_path: Path) -> None:
    count = 40_000
    log = log_of(tmp_path, batch(*(b"" for _ in range(count)), codec=Codec.ZSTD))
    tracemalloc.start()
    try:
        assert problems(read(log, [count - 1])) == [False]
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2_000_000, "the unpacked batch has 0.4 MB; its records as objects have ten"


def test_records_that_retention_deleted_have_the_reason(tmp_path: Path) -> None:
    log = log_of(tmp_path, batch(b"0"), batch(b"1"), batch(b"2"))
    log.flush()
    log.retention.delete_records_before(2)
    found = read(log, [0, 1, 2])
    assert [one.problem for one in found] == ["removed by retention", "removed by retention", ""]


def test_bad_sector_is_a_problem_and_a_lack_of_descriptors_is_raised(tmp_path: Path) -> None:
    files = FailingFileSystem()
    log = log_of(tmp_path, batch(b"0"), files=files)
    files.fail("read", "*.log", error_number=errno.EIO)
    assert problems(read(log, [0])) == [True]
    files.fail("read", "*.log", error_number=errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        read(log, [0])
    assert values(read(log, [0])) == [b"0"]
