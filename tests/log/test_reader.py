"""Reading a log by offset and by time, from any thread."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import (
    CorruptSegment,
    OffsetOutOfRange,
)
from headrace.records.batch import (
    checksum_matches,
    iterate_headers,
    read_header,
)
from tests.log.batches import NOW_MS, batch, open_log, read_all, values

CONFIG = LogConfig(segment_bytes_max=400, index_interval_bytes=100, file_delete_delay_ms=1000)
SMALL = LogConfig(segment_bytes_max=2000, index_interval_bytes=200)


@pytest.mark.parametrize("bytes_max", [1, 100, 333, 1000, 1 << 20])
def test_every_offset_is_found_across_segments(tmp_path: Path, bytes_max: int) -> None:
    log = open_log(tmp_path, SMALL)
    randomness = random.Random(7)
    expected = []
    for number in range(120):
        parts = [
            f"{number}-{part}".encode() * randomness.randint(1, 9) for part in range(randomness.randint(1, 4))
        ]
        log.append(batch(*parts), now_ms=NOW_MS)
        expected.extend(parts)
    assert len(log.segments) > 5
    for offset in range(log.end_offset):
        found = bytes(
            log.reader.read(offset, bytes_max=bytes_max, end_offset=log.end_offset, at_least_one=True)
        )
        headers = [header for _, header in iterate_headers(found)]
        assert headers[0].base_offset <= offset <= headers[0].last_offset
        assert sum(header.size_bytes for header in headers) == len(found)
        assert len(found) <= bytes_max or len(headers) == 1
    assert values(read_all(log, bytes_max=bytes_max)) == expected


def test_read_stops_at_the_end_offset_given(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=100))
    for number in range(20):
        log.append(batch(b"%d" % number, b"again"), now_ms=NOW_MS)
    for end_offset in range(0, 41, 2):
        found = bytes(log.reader.read(0, bytes_max=1 << 20, end_offset=end_offset, at_least_one=True))
        assert [header.next_offset for _, header in iterate_headers(found)][-1:] == (
            [end_offset] if end_offset else []
        )


def test_read_up_to_durable_offset_shows_nothing_unsynced(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"synced"), now_ms=NOW_MS)
    log.flush()
    log.append(batch(b"not yet"), now_ms=NOW_MS)
    assert log.durable_offset == 1
    found = bytes(log.reader.read(0, bytes_max=1000, end_offset=log.durable_offset, at_least_one=True))
    assert read_header(found).size_bytes == len(found)
    assert log.reader.read(1, bytes_max=1000, end_offset=log.durable_offset, at_least_one=True) == b""


def test_nothing_is_returned_when_one_batch_is_too_much_and_none_is_demanded(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"x" * 500), now_ms=NOW_MS)
    assert log.reader.read(0, bytes_max=100, end_offset=1, at_least_one=False) == b""


def test_reads_without_waiting_return_the_same(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for number in range(50):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    for offset in range(50):
        waited = log.reader.read(offset, bytes_max=300, end_offset=50, at_least_one=True)
        assert bytes(
            log.reader.read(offset, bytes_max=300, end_offset=50, at_least_one=True, nowait=True)
        ) == bytes(waited)


def test_offsets_outside_are_rejected_with_the_range(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), now_ms=NOW_MS)
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRange) as caught:
            log.reader.read(offset, bytes_max=10, end_offset=1, at_least_one=True)
        assert (caught.value.start_offset, caught.value.end_offset) == (0, 1)


def test_readers_in_threads_see_whole_batches_while_the_log_grows(tmp_path: Path) -> None:
    log = open_log(
        tmp_path, LogConfig(segment_bytes_max=20_000, index_interval_bytes=300, closed_segments_open_max=1)
    )
    total = 3000

    def consume() -> int:
        at = 0
        while at < total:
            found = bytes(log.reader.read(at, bytes_max=3000, end_offset=log.end_offset, at_least_one=True))
            for position, header in iterate_headers(found):
                assert header.base_offset == at
                assert checksum_matches(found[position : position + header.size_bytes])
                at = header.next_offset
        return at

    with ThreadPoolExecutor(max_workers=3) as threads:
        readers = [threads.submit(consume) for _ in range(3)]
        for number in range(total):
            log.append(batch(b"%d" % number), now_ms=NOW_MS)
        assert [reader.result(timeout=60) for reader in readers] == [total] * 3


@pytest.mark.parametrize(("byte", "bit"), [(7, 3), (7, 7), (0, 7), (9, 0), (8, 6)])
def test_batch_with_a_wrong_offset_or_length_is_not_passed_over(tmp_path: Path, byte: int, bit: int) -> None:
    """No checksum covers them."""
    log = open_log(tmp_path, LogConfig(segment_bytes_max=1000))
    for number in range(20):
        log.append(batch(b"%d" % number * 50), now_ms=NOW_MS)
    closed = log.close()
    path = min(tmp_path.glob("*.log"))
    content = bytearray(path.read_bytes())
    position, header = list(iterate_headers(bytes(content)))[2]
    content[position + byte] ^= 1 << bit
    path.write_bytes(content)
    again = open_log(tmp_path, was_clean=True, recovery_offset=closed.end_offset)
    for offset in (header.base_offset, header.base_offset + 1):
        with pytest.raises(CorruptSegment):
            again.reader.read(offset, bytes_max=1, end_offset=20, at_least_one=True)


def test_reader_inside_a_removed_segment_gets_the_new_start(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(30):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    log.reader.read(0, bytes_max=100, end_offset=30, at_least_one=True)
    log.retention.delete_records_before(20)
    log.retired.remove_due(NOW_MS + 5000)
    with pytest.raises(OffsetOutOfRange) as caught:
        log.reader.read(1, bytes_max=100, end_offset=30, at_least_one=True)
    assert caught.value.start_offset == 20
    assert not list(tmp_path.glob("*0000.log*")), "reading must not bring a removed file back"


@pytest.mark.parametrize("reopened", [False, True])
def test_first_record_at_or_after_a_time_is_found(tmp_path: Path, reopened: bool) -> None:
    log = open_log(tmp_path, CONFIG)
    times = [NOW_MS + delta for delta in (0, 5, 3, 10, 10, 7, 20, 30, 25, 40, 50, 45, 60, 61, 62, 63, 64, 70)]
    for time_ms in times:
        log.append(batch(b"x", timestamp_ms=time_ms), now_ms=NOW_MS)
    if reopened:
        closed = log.close()
        log = open_log(tmp_path, CONFIG, was_clean=True, recovery_offset=closed.end_offset)
    for wanted in range(NOW_MS - 1, NOW_MS + 72):
        expected = next((offset for offset, time_ms in enumerate(times) if time_ms >= wanted), None)
        found = log.reader.offset_for_timestamp(wanted, end_offset=log.end_offset)
        assert (found and found.offset) == expected
    largest = log.reader.max_timestamp()
    assert largest is not None
    assert (largest.offset, largest.timestamp_ms) == (17, NOW_MS + 70)
    assert log.reader.offset_for_timestamp(NOW_MS + 70, end_offset=17) is None


def test_record_inside_a_batch_is_found_by_time(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    log.append(batch(b"a", b"b", timestamp_ms=NOW_MS), now_ms=NOW_MS)
    log.append(batch(b"c", b"d", timestamp_ms=NOW_MS + 5), now_ms=NOW_MS)
    log.retention.delete_records_before(3)
    found = log.reader.offset_for_timestamp(NOW_MS, end_offset=4)
    assert found is not None
    assert (found.offset, found.timestamp_ms, found.leader_epoch) == (3, NOW_MS + 5, log.leader_epoch)
