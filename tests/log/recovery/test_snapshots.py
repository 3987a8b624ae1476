"""Producer snapshots: which are kept, and what is restored from them."""

from __future__ import annotations

from pathlib import Path

from headrace.log.config import LogConfig
from tests.log.batches import NOW_MS, batch, open_log

CONFIG = LogConfig(segment_bytes_max=20_000, index_interval_bytes=1000)


def test_checkpoint_keeps_two_snapshots(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(5):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
        log.flush()
        assert log.checkpoint(NOW_MS) == number + 1
    assert sorted(int(path.stem) for path in tmp_path.glob("*.snapshot")) == [4, 5]
