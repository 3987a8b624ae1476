"""How far readers of a partition may look, and who is woken when it grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.broker.partition import Partition
from headrace.records.record import Record, encode_batch
from tests.log.batches import NOW_MS, batch, open_log


class Fetch:
    def __init__(self) -> None:
        self.added_bytes: list[int] = []
        self.is_woken = False

    def grown(self, added_bytes: int) -> None:
        self.added_bytes.append(added_bytes)

    def wake(self) -> None:
        self.is_woken = True


@pytest.mark.parametrize("reads_unflushed", [True, False], ids=["os", "fsync"])
def test_record_is_readable_when_it_is_as_durable_as_the_settings_require(
    tmp_path: Path, reads_unflushed: bool
) -> None:
    partition = Partition("t", 0, open_log(tmp_path), reads_unflushed=reads_unflushed)
    fetch = Fetch()
    partition.waiters.add(fetch)
    pending = partition.append(batch(b"x"), now_ms=NOW_MS)
    assert (pending.base_offset, pending.last_offset) == (0, 0)
    assert (partition.high_watermark, pending.is_durable) == (int(reads_unflushed), reads_unflushed)
    assert fetch.added_bytes == [len(batch(b"x"))] * reads_unflushed
    flush = partition.log.flusher.begin()
    flush.sync()
    partition.log.flusher.finish(flush)
    assert (partition.high_watermark, pending.is_durable, partition.pending().is_durable) == (1, True, True)


def test_open_transaction_bounds_the_last_stable_offset(tmp_path: Path) -> None:
    partition = Partition("t", 0, open_log(tmp_path), reads_unflushed=True)
    partition.append(batch(b"x"), now_ms=NOW_MS)
    record = Record(offset=0, timestamp_ms=NOW_MS, key=None, value=b"y")
    open_transaction = encode_batch(
        [record], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    partition.append(open_transaction, now_ms=NOW_MS)
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 2)


def test_duplicate_batch_has_its_first_offset_and_wakes_no_fetch(tmp_path: Path) -> None:
    partition = Partition("t", 0, open_log(tmp_path), reads_unflushed=True)
    record = Record(offset=0, timestamp_ms=NOW_MS, key=None, value=b"y")
    again = encode_batch([record], producer_id=1, producer_epoch=0, base_sequence=0)
    partition.append(again, now_ms=NOW_MS)
    partition.append(batch(b"x"), now_ms=NOW_MS)
    fetch = Fetch()
    partition.waiters.add(fetch)
    pending = partition.append(again, now_ms=NOW_MS)
    assert (pending.base_offset, pending.is_duplicate, fetch.added_bytes) == (0, True, [])


def test_fetches_are_woken_when_the_topic_is_deleted(tmp_path: Path) -> None:
    partition = Partition("t", 3, open_log(tmp_path), reads_unflushed=True)
    fetch = Fetch()
    partition.waiters.add(fetch)
    partition.deleted()
    assert (fetch.is_woken, partition.is_deleted, str(partition)) == (True, True, "t-3")
