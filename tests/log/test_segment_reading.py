"""Reading one segment: every offset, every bound, with and without a known position."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.damage import Damage
from headrace.log.errors import CorruptSegment
from headrace.log.segment import Segment
from headrace.log.segment_reading import first_at_or_after, hop, position_of, read_segment
from headrace.log.segments import Segments
from headrace.records.batch import iterate_headers
from tests.log.batches import NOW_MS, open_folder, write_segment

COUNT = 60


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    return write_segment(Segments(open_folder(tmp_path, LogConfig(index_interval_bytes=300))), 0, COUNT)


def positions(segment: Segment) -> list[int]:
    """Of every batch, whether damaged or not."""
    damages, segment.damages = segment.damages, ()
    try:
        return [position for position, _ in segment.walk(0)]
    finally:
        segment.damages = damages


def offsets_read(segment: Segment, offset: int, bytes_max: int, limit: int = COUNT) -> list[int]:
    at = positions(segment)[limit] if limit < COUNT else segment.size_bytes
    found = read_segment(
        segment,
        offset,
        position=None,
        limit=(limit, at),
        bytes_max=bytes_max,
        at_least_one=True,
        nowait=False,
    )
    if found is None:
        return []
    offsets = [header.base_offset for _, header in iterate_headers(found.batches)]
    if found.next_offset >= 0:
        assert (found.next_offset, found.next_position) == (
            offsets[-1] + 1,
            [*positions(segment), segment.size_bytes][offsets[-1] + 1],
        )
    return offsets


@pytest.mark.parametrize("bytes_max", [1, 70, 200, 1000, 1 << 20])
def test_every_offset_is_found_within_its_bounds(segment: Segment, bytes_max: int) -> None:
    size = segment.size_bytes // COUNT + 1
    for offset in range(COUNT):
        offsets = offsets_read(segment, offset, bytes_max)
        assert offsets == list(range(offset, offset + len(offsets)))
        assert 1 <= len(offsets) <= max(1, bytes_max // (size - 2))
    assert offsets_read(segment, COUNT, bytes_max) == []


def test_limit_is_not_passed(segment: Segment) -> None:
    assert offsets_read(segment, 5, 1 << 20, limit=9) == [5, 6, 7, 8]
    assert offsets_read(segment, 9, 1 << 20, limit=9) == []


def test_position_of_an_offset_is_that_of_its_batch(segment: Segment) -> None:
    assert [position_of(segment, offset) for offset in range(COUNT)] == positions(segment)
    assert position_of(segment, COUNT) == segment.size_bytes


def test_read_stops_before_damage_and_fails_inside_it(segment: Segment) -> None:
    at = positions(segment)
    segment.damages = (
        Damage(
            path=segment.path,
            position=at[20],
            end_position=at[23],
            first_offset=20,
            next_offset=23,
            reason="test",
        ),
    )
    assert offsets_read(segment, 15, 1 << 20) == [15, 16, 17, 18, 19]
    for offset in (20, 22):
        with pytest.raises(CorruptSegment, match="test"):
            offsets_read(segment, offset, 1 << 20)
    assert offsets_read(segment, 23, 1 << 20)[:2] == [23, 24]


@pytest.mark.parametrize("wanted", [0, 1, 30, COUNT - 1])
def test_first_record_at_or_after_a_time_is_found(segment: Segment, wanted: int) -> None:
    for start_offset in (0, wanted):
        found = first_at_or_after(
            segment,
            NOW_MS + wanted,
            start_offset=start_offset,
            end_offset=COUNT,
            decompressed_bytes_max=1000,
        )
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (wanted, NOW_MS + wanted)


def test_no_record_is_found_above_the_newest_time_or_the_end_offset(segment: Segment) -> None:
    for timestamp_ms, end_offset in ((NOW_MS + COUNT, COUNT), (NOW_MS + 30, 30)):
        assert (
            first_at_or_after(
                segment, timestamp_ms, start_offset=0, end_offset=end_offset, decompressed_bytes_max=1000
            )
            is None
        )


def test_bytes_that_are_no_batch_have_no_size() -> None:
    assert hop(bytes(27), 0) == (0, 0, 0)
