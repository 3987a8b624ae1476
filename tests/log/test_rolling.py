"""When the active segment is closed, and the next one starts."""

from __future__ import annotations

from pathlib import Path

from headrace.log.config import LogConfig
from tests.log.batches import NOW_MS, batch, open_log


def test_active_segment_is_closed_by_age(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    log.append(batch(b"a", timestamp_ms=NOW_MS), now_ms=NOW_MS)
    log.append(batch(b"b", timestamp_ms=NOW_MS + 1000), now_ms=NOW_MS)
    assert len(log.segments) == 1
    log.append(batch(b"c", timestamp_ms=NOW_MS + 1001), now_ms=NOW_MS)
    assert len(log.segments) == 2
