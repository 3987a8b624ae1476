from __future__ import annotations

from pathlib import Path

import pytest

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
