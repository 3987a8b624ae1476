"""When the active segment is closed, and the next one starts."""

from __future__ import annotations

from pathlib import Path

from headrace.log.config import LogConfig
from headrace.log.producer_state import ProducerStates
from headrace.log.recovery.snapshots import ProducerSnapshots
from headrace.log.rolling import SegmentRoller
from headrace.log.segments import Segments
from tests.log.batches import NOW_MS, batch, open_folder, open_log, write_segment


def test_active_segment_is_closed_by_age(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    log.append(batch(b"a", timestamp_ms=NOW_MS), now_ms=NOW_MS)
    log.append(batch(b"b", timestamp_ms=NOW_MS + 1000), now_ms=NOW_MS)
    assert len(log.segments) == 1
    log.append(batch(b"c", timestamp_ms=NOW_MS + 1001), now_ms=NOW_MS)
    assert len(log.segments) == 2


def test_no_segment_is_larger_than_its_bound_unless_one_batch_is(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes_max=500))
    for number in range(40):
        log.append(batch(b"x" * (number * 13 % 600)), now_ms=NOW_MS)
    for segment in log.segments.view.segments:
        assert segment.size_bytes <= 500 or len(list(segment.walk(0))) == 1
    assert len(log.segments) > 10


def test_index_bounds_a_segment_too(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1, index_bytes_max=24))
    for number in range(12):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    assert len(log.segments) > 2
    assert all(segment.index_bytes <= 24 for segment in log.segments.view.segments)


def test_segment_without_timestamps_is_closed_by_the_time_since_it_was_created(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    for now_ms in (NOW_MS, NOW_MS + 1000):
        log.append(batch(b"a", timestamp_ms=-1), now_ms=now_ms)
    assert len(log.segments) == 1
    log.append(batch(b"b", timestamp_ms=-1), now_ms=NOW_MS + 1001)
    assert len(log.segments) == 2


def test_offsets_of_a_segment_fit_its_index(tmp_path: Path) -> None:
    segments = Segments(open_folder(tmp_path))
    segments.load([write_segment(segments, 0, 1)])
    roller = SegmentRoller(segments, ProducerSnapshots(segments, ProducerStates(producer_ids_max=10)))
    assert not roller.is_due(segments.active, 10, 2**31 - 1, NOW_MS, NOW_MS)
    assert roller.is_due(segments.active, 10, 2**31, NOW_MS, NOW_MS)
