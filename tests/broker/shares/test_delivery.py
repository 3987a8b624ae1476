"""What a share fetch reads: whole batches, as many as the limits allow, and one at least."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.broker.shares.delivery import read_runs
from headrace.broker.shares.window import LOG_END, Run
from headrace.log.partition_log import PartitionLog
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
