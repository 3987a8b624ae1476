from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log.aborted_index import AbortedTransaction
from headrace.log.compaction.compacted_transactions import CompactedTransactions, Fate
from headrace.records.batch import BatchHeader, read_header
from headrace.records.record import Record, decode_records, encode_batch
from tests.log.compaction.cleaning_lab import (
    LogOnDisk,
    keyed_batch,
)


@pytest.fixture
def log(tmp_path: Path) -> LogOnDisk:
    return LogOnDisk(tmp_path)


def test_control_batches_are_kept_though_their_keys_are_the_same(log: LogOnDisk) -> None:
    markers = [
        encode_batch(
            [Record(offset=offset, timestamp_ms=0, key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")],
            base_offset=offset,
            producer_id=5,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
        for offset in (1, 3)
    ]
    data = keyed_batch(2, ("\0\0\0\1", "not a marker"))
    log.write_segment(keyed_batch(0, ("a", "1")), markers[0], data, markers[1], keyed_batch(4, ("a", "2")))
    log.compact()

    def keys(batches: list[bytes]) -> list[tuple[int, bytes | None]]:
        return [(r.offset, r.key) for one in batches for r in decode_records(one, bytes_max=1 << 20)]

    assert keys(log.batches()[:3]) == keys([markers[0], data, markers[1]])


def header(
    offset: int, *, producer_id: int = 5, is_control: bool = False, is_transactional: bool = True
) -> BatchHeader:
    sent = encode_batch(
        [Record(offset=offset, timestamp_ms=0, key=b"k", value=b"v")],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=-1 if is_control else 0,
        is_transactional=is_transactional,
        is_control=is_control,
    )
    return read_header(sent)


def test_batches_of_aborted_transactions_are_found_by_producer_and_offset() -> None:
    transactions = CompactedTransactions(
        [AbortedTransaction(5, 10, 19, 20), AbortedTransaction(5, 40, 45, 46)]
    )
    aborted = [offset for offset in range(0, 60, 2) if transactions.is_aborted(header(offset))]
    assert aborted == [10, 12, 14, 16, 18, 40, 42, 44]
    assert not transactions.is_aborted(header(12, producer_id=6))
    assert not transactions.is_aborted(header(12, is_transactional=False))
    assert not transactions.is_aborted(header(12, is_control=True))


def test_marker_is_needed_while_a_batch_of_its_transaction_is_left() -> None:
    transactions = CompactedTransactions([AbortedTransaction(5, 0, 2, 3)])
    fates = [
        transactions.fate(header(0)),
        transactions.fate(header(1, producer_id=6)),
        transactions.fate(header(2, is_control=True)),
        transactions.fate(header(3, is_control=True)),
        transactions.fate(header(4, producer_id=6, is_control=True)),
        transactions.fate(header(5, is_transactional=False)),
    ]
    assert fates == [
        Fate.ABORTED,
        Fate.ORDINARY,
        Fate.ORDINARY,
        Fate.ENDS_NOTHING,
        Fate.ORDINARY,
        Fate.ORDINARY,
    ]


def test_entries_are_kept_with_their_markers_in_the_order_of_the_log() -> None:
    late, early, other = (
        AbortedTransaction(producer, 0, last, last) for producer, last in ((1, 30), (2, 10), (3, 20))
    )
    assert CompactedTransactions([late, early, other]).with_markers({30, 10}) == [early, late]
