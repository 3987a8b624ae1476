"""What a share fetch reads: whole batches, as many as the limits allow, and one at least."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.broker.shares.delivery import read_runs
from headrace.broker.shares.spans import OffsetRange
from headrace.broker.shares.window import LOG_END, Run
from headrace.log.partition_log import PartitionLog
from headrace.records.batch import iterate_headers, pack_batch, read_header
from headrace.records.compression import Codec
from tests.log.batches import NOW_MS, batch, open_log

BATCH = batch(b"x" * 1000)
BATCHES = 10


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = open_log(tmp_path)
    for _ in range(BATCHES):
        log.append(BATCH, now_ms=NOW_MS)
    return log


@pytest.mark.parametrize(
    ("bytes_max", "batches"),
    [
        (1, 1),
        (len(BATCH), 1),
        (len(BATCH) + 1, 1),
        (2 * len(BATCH) - 1, 1),
        (2 * len(BATCH), 2),
        (1 << 20, BATCHES),
    ],
)
def test_reading_stops_before_the_batch_that_exceeds_the_bytes(
    log: PartitionLog, bytes_max: int, batches: int
) -> None:
    found = read_runs(
        log,
        [Run(0, LOG_END)],
        records_max=1000,
        bytes_max=bytes_max,
        end_offset=log.end_offset,
        nowait=False,
    )
    assert (found.records, found.size_bytes) == (batches, batches * len(BATCH))


def test_reading_stops_at_the_bytes_across_separate_ranges(log: PartitionLog) -> None:
    apart = [Run(offset, offset) for offset in range(0, BATCHES, 2)]
    found = read_runs(
        log,
        apart,
        records_max=1000,
        bytes_max=3 * len(BATCH) + 10,
        end_offset=log.end_offset,
        nowait=False,
    )
    assert [one.first for one in found.batches] == [0, 2, 4]


def keys_of(log: PartitionLog, keys_from: int = 0) -> list[tuple[int, list[object]]]:
    found = read_runs(
        log,
        [Run(0, LOG_END)],
        records_max=1000,
        bytes_max=1 << 20,
        end_offset=log.end_offset,
        nowait=False,
        keys_from=keys_from,
    )
    return [(each.first, [*each.hashes]) for each in found.keys]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_keys_are_read_from_the_offset_that_is_wanted(tmp_path: Path, codec: Codec) -> None:
    log = open_log(tmp_path)
    for key in (b"a", None, b"b"):
        log.append(batch(b"1", b"2", key=key, codec=codec), now_ms=NOW_MS)
    assert keys_of(log) == [(0, [hash(b"a")] * 2), (2, [None] * 2), (4, [hash(b"b")] * 2)]
    assert keys_of(log, keys_from=3) == [(2, [None] * 2), (4, [hash(b"b")] * 2)]
    assert keys_of(log, keys_from=6) == []


def test_batch_whose_keys_cannot_be_read_is_delivered_without_order(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    header = read_header(batch(b"1", b"2", key=b"a"))
    log.append(pack_batch(header, b"\xff" * 20), now_ms=NOW_MS)
    assert keys_of(log) == [(0, [None, None])]


def test_only_batches_with_records_that_were_locked_are_sent(log: PartitionLog) -> None:
    found = read_runs(
        log,
        [Run(0, LOG_END)],
        records_max=1000,
        bytes_max=1 << 20,
        end_offset=log.end_offset,
        nowait=False,
    )
    for locked in ([0, 9], [3], [2, 3, 7], [*range(BATCHES)]):
        sent = found.with_offsets([OffsetRange(offset, offset) for offset in locked])
        assert [header.base_offset for _, header in iterate_headers(sent)] == locked
