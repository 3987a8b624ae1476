"""Segments that left the log: their files stay for reads that are inside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.log.config import LogConfig
from headrace.testing.failing_filesystem import FailingFileSystem
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


def test_segment_whose_files_cannot_be_renamed_stays_in_the_log_with_those_after_it(tmp_path: Path) -> None:
    files = FailingFileSystem()
    events: list[tuple[str, Mapping[str, object]]] = []
    log = open_log(tmp_path, CONFIG, files=files, events=events)
    for number in range(30):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    bases = log.segments.base_offsets
    files.fail("rename", f"*{bases[1]:020d}.log")
    log.retired.retire_oldest(3, NOW_MS)
    assert log.segments.base_offsets == bases[1:]
    assert [name for name, _ in events] == ["segment_not_removed"]
    log.retired.retire_oldest(2, NOW_MS)
    assert log.segments.base_offsets == bases[3:]


def test_file_that_cannot_be_removed_is_tried_again(tmp_path: Path) -> None:
    files = FailingFileSystem()
    log = open_log(tmp_path, CONFIG, files=files)
    for number in range(30):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    log.retired.retire_oldest(2, NOW_MS)
    files.fail("remove", "*.log.deleted")
    assert log.retired.remove_due(NOW_MS + 1000) == 1
    assert log.retired.remove_due(NOW_MS + 1000) == 1
    assert not list(tmp_path.glob("*.deleted"))


def test_closing_removes_the_files_immediately(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(30):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    log.retired.retire_oldest(2, NOW_MS)
    assert list(tmp_path.glob("*.deleted"))
    log.close()
    assert not list(tmp_path.glob("*.deleted"))
