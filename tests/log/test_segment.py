"""One segment: batches are appended, walked, indexed, renamed and removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.damage import Damage
from headrace.log.errors import CorruptSegment
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from tests.log.batches import NOW_MS, open_folder, write_segment

COUNT = 40


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    return Segments(open_folder(tmp_path, LogConfig(index_interval_bytes=300)))


@pytest.fixture
def segment(segments: Segments) -> Segment:
    return write_segment(segments, 100, COUNT)


def reopened(segments: Segments, segment: Segment) -> Segment:
    return segments.make(100, size_bytes=segment.size_bytes, next_offset=segment.next_offset)


def test_batches_are_walked_in_order_and_end_at_the_extent(segment: Segment) -> None:
    walked = list(segment.walk(0))
    assert [header.base_offset for _, header in walked] == list(range(100, 100 + COUNT))
    position, last = walked[-1]
    assert segment.extent == (last.next_offset, position + last.size_bytes)
    assert segment.size_bytes == os.path.getsize(segment.path)


def test_small_chunks_walk_the_same(segment: Segment) -> None:
    assert list(segment.walk(0, chunk_bytes=61)) == list(segment.walk(0))


def test_walk_skips_known_damage(segment: Segment) -> None:
    walked = list(segment.walk(0))
    position, header = walked[3]
    segment.damages = (
        Damage(
            path=segment.path,
            position=position,
            end_position=position + header.size_bytes,
            first_offset=header.base_offset,
            next_offset=header.next_offset,
            reason="test",
        ),
    )
    assert list(segment.walk(0)) == walked[:3] + walked[4:]


def test_bytes_that_are_no_header_are_an_error_with_their_position(segment: Segment) -> None:
    position, _ = list(segment.walk(0))[3]
    with open(segment.path, "r+b") as file:
        file.seek(position + 16)
        file.write(b"\xff")
    with pytest.raises(CorruptSegment) as caught:
        list(segment.walk(0))
    assert caught.value.position == position


def test_batch_with_a_wrong_checksum_is_an_error(segment: Segment) -> None:
    assert len(list(segment.batches())) == COUNT
    with open(segment.path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    with pytest.raises(CorruptSegment, match="checksum"):
        list(segment.batches())


def test_released_segment_loads_its_indexes_again(segment: Segment) -> None:
    segment.write_indexes(is_final=True)
    entries = len(segment.offset_index())
    assert entries > 3
    segment.release()
    assert not segment.is_open
    assert len(segment.offset_index()) == entries
    assert segment.time_index().last() == (NOW_MS + 100 + COUNT - 1, 100 + COUNT - 1)


@pytest.mark.parametrize("content", [b"no index", bytes(16), b"\xff" * 16])
def test_damaged_offset_index_is_rebuilt_from_the_log(
    segments: Segments, segment: Segment, content: bytes
) -> None:
    segment.write_indexes(is_final=True)
    expected = segment.offset_index().positions
    Path(segment.stem + ".index").write_bytes(content)
    assert reopened(segments, segment).offset_index().positions == expected


def test_largest_timestamp_of_a_damaged_time_index_is_not_confirmed(
    segments: Segments, segment: Segment
) -> None:
    segment.write_indexes(is_final=True)
    newest = segment.largest_timestamp_ms()
    assert reopened(segments, segment).confirms_largest_timestamp()
    path = Path(segment.stem + ".timeindex")
    content = bytearray(path.read_bytes())
    content[-12:-4] = (newest - 50).to_bytes(8, "big")
    path.write_bytes(content)
    again = reopened(segments, segment)
    assert again.largest_timestamp_ms() == newest - 50
    assert not again.confirms_largest_timestamp()
    assert again.largest_timestamp_ms() == newest


def test_segment_without_timestamps_is_as_old_as_its_file(segments: Segments) -> None:
    empty = segments.create(0)
    os.utime(empty.path, (1000, 2000))
    assert (empty.largest_timestamp_ms(), empty.newest_ms()) == (-1, 2_000_000)


def test_bytes_after_the_end_are_truncated(segment: Segment) -> None:
    with open(segment.path, "ab") as file:
        file.write(b"left by a failed write")
    segment.truncate()
    assert os.path.getsize(segment.path) == segment.size_bytes


def test_renamed_segment_is_still_read_by_who_has_it_open(segment: Segment) -> None:
    before = segment.read(segment.size_bytes, 0)
    segment.change_suffix(".deleted")
    assert segment.read(segment.size_bytes, 0) == before
    assert {path.suffix for path in Path(segment.path).parent.iterdir()} == {".deleted"}
    segment.remove()
    assert list(Path(segment.path).parent.iterdir()) == []


def test_age_counts_from_the_first_batch(segments: Segments, segment: Segment) -> None:
    assert reopened(segments, segment).first_batch_timestamp_ms() == NOW_MS + 100
    assert segments.create(500).first_batch_timestamp_ms() is None
