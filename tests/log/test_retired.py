"""Segments that left the log: their files stay for reads that are inside them."""

from __future__ import annotations

from pathlib import Path

from headrace.log.config import LogConfig
from tests.log.batches import NOW_MS, batch, open_log

CONFIG = LogConfig(segment_bytes_max=400, index_interval_bytes=100, file_delete_delay_ms=1000)


def test_files_of_removed_segments_wait_for_their_delay(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(30):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    log.retention.delete_records_before(17)
    assert list(tmp_path.glob("*.log.deleted"))
    assert log.retired.remove_due(NOW_MS + 999) == 0
    assert log.retired.remove_due(NOW_MS + 1000) > 0
    assert not list(tmp_path.glob("*.deleted"))
