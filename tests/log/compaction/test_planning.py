from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.log.compaction.planning import (
    CompactionPlan,
    CompactionSegment,
    group_segments,
    plan_compaction,
)
from headrace.log.config import LogConfig
from headrace.log.segments import Segments
from tests.log.batches import open_folder, write_segment
from tests.log.compaction.cleaning_lab import (
    CONFIG,
    NOW_MS,
)


def _segments(*sizes_and_ages: tuple[int, int]) -> list[CompactionSegment]:
    return [
        CompactionSegment(
            base_offset=100 * index,
            size_bytes=size_bytes,
            index_bytes=8,
            time_index_bytes=12,
            first_timestamp_ms=NOW_MS - age_ms,
            max_timestamp_ms=NOW_MS - age_ms,
        )
        for index, (size_bytes, age_ms) in enumerate(sizes_and_ages)
    ]


def _plan(
    segments: list[CompactionSegment],
    *,
    first_dirty_offset: int = 0,
    start_offset: int = 0,
    cleanable_before_offset: int = 10**9,
    config: LogConfig = CONFIG,
) -> CompactionPlan | None:
    return plan_compaction(
        segments,
        first_dirty_offset=first_dirty_offset,
        start_offset=start_offset,
        cleanable_before_offset=cleanable_before_offset,
        now_ms=NOW_MS,
        config=config,
    )


def test_plan_sees_the_segments_as_they_are(tmp_path: Path) -> None:
    segments = Segments(open_folder(tmp_path, LogConfig(index_interval_bytes=100)))
    segment = write_segment(segments, 10, 7)
    first = next(header for _, header in segment.walk(0))
    seen = CompactionSegment.of(segment)
    assert (seen.base_offset, seen.size_bytes) == (10, segment.size_bytes)
    assert (seen.first_timestamp_ms, seen.max_timestamp_ms) == (
        first.max_timestamp_ms,
        first.max_timestamp_ms + 6,
    )
    assert seen.index_bytes == segment.index_bytes > 0
    assert CompactionSegment.of(segments.create(17)).first_timestamp_ms == -1


def test_active_segment_is_never_cleaned() -> None:
    assert _plan(_segments((100, 10))) is None
    planned = _plan(_segments((100, 10), (100, 10)))
    assert planned is not None
    assert [segment.base_offset for segment in planned.segments] == [0]
    assert planned.end_offset == 100


def test_log_is_due_when_more_than_the_ratio_is_dirty() -> None:
    segments = _segments((60, 10), (40, 10), (100, 10))
    due = {
        ratio: _plan(
            segments, first_dirty_offset=100, config=replace(CONFIG, min_cleanable_dirty_ratio=ratio)
        )
        for ratio in (0.39, 0.4, 0.41)
    }
    assert [planned is not None for planned in due.values()] == [True, False, False]
    planned = due[0.39]
    assert planned is not None
    assert [segment.base_offset for segment in planned.segments] == [0, 100]


def test_clean_log_is_never_due() -> None:
    config = replace(CONFIG, min_cleanable_dirty_ratio=0.0, max_compaction_lag_ms=1)
    assert _plan(_segments((60, 10), (40, 10)), first_dirty_offset=100, config=config) is None


def test_young_segment_and_all_after_it_wait_for_the_minimum_lag() -> None:
    segments = _segments((10, 500), (10, 99), (10, 500), (10, 500))
    planned = _plan(segments, config=replace(CONFIG, min_compaction_lag_ms=100))
    assert planned is not None
    assert planned.end_offset == 100
    planned = _plan(segments, config=replace(CONFIG, min_compaction_lag_ms=99))
    assert planned is not None
    assert planned.end_offset == 300


def test_young_segment_that_is_clean_already_holds_up_nothing() -> None:
    segments = _segments((10, 5), (100, 500), (10, 0))
    planned = _plan(segments, first_dirty_offset=100, config=replace(CONFIG, min_compaction_lag_ms=100))
    assert planned is not None
    assert planned.end_offset == 200


def test_old_dirty_record_makes_a_log_due_whatever_the_ratio() -> None:
    segments = _segments((1000, 900), (1, 501), (10, 0))
    config = replace(CONFIG, max_compaction_lag_ms=500)
    assert _plan(segments, first_dirty_offset=100, config=config) is not None
    later = replace(CONFIG, max_compaction_lag_ms=501)
    assert _plan(segments, first_dirty_offset=100, config=later) is None


def test_segments_that_are_not_final_are_not_compacted() -> None:
    segments = _segments((10, 10), (10, 10), (10, 10))
    ends = []
    for cleanable_before_offset in (99, 100, 199, 200):
        planned = _plan(segments, cleanable_before_offset=cleanable_before_offset)
        ends.append(planned.end_offset if planned else None)
    assert ends == [None, 100, 100, 200]


@pytest.mark.parametrize("first_dirty_offset", [-1, 49, 301, 10**12])
def test_checkpoint_outside_of_the_log_means_that_all_is_dirty(first_dirty_offset: int) -> None:
    segments = _segments((10, 10), (10, 10), (10, 10), (10, 10))
    planned = _plan(segments, first_dirty_offset=first_dirty_offset, start_offset=50)
    assert planned is not None
    assert planned.first_dirty_offset == 50


def _groups(segments: list[CompactionSegment], end_offset: int, config: LogConfig) -> list[list[int]]:
    groups = group_segments(segments, end_offset=end_offset, config=config)
    return [[segment.base_offset for segment in group] for group in groups]


def test_small_neighbours_share_a_segment_up_to_its_size() -> None:
    segments = _segments((40, 0), (60, 0), (1, 0), (100, 0), (101, 0), (20, 0))
    config = replace(CONFIG, segment_bytes_max=100)
    assert _groups(segments, 600, config) == [[0, 100], [200], [300], [400], [500]]


def test_indexes_bound_a_group_too() -> None:
    segments = _segments((1, 0), (1, 0), (1, 0))
    assert _groups(segments, 300, replace(CONFIG, index_bytes_max=24)) == [[0, 100], [200]]


def test_offsets_of_a_group_fit_in_32_bits() -> None:
    first, second = _segments((1, 0), (1, 0))
    last_that_fits = 2**31 - 1
    assert _groups([first, second], last_that_fits + 1, CONFIG) == [[0, 100]]
    assert _groups([first, second], last_that_fits + 2, CONFIG) == [[0], [100]]
