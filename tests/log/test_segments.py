"""The segments of a log at one moment, and how many of them stay open."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.config import LogConfig
from headrace.log.segments import Segments, floor_segment
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.log.batches import open_folder, write_segment


def filled(directory: Path, config: LogConfig | None = None, *, count: int = 3) -> Segments:
    segments = Segments(open_folder(directory, config))
    segments.load([write_segment(segments, 10 * number, 10) for number in range(count)])
    return segments


def test_loaded_segments_are_durable_up_to_their_end(tmp_path: Path) -> None:
    segments = filled(tmp_path)
    assert (len(segments), segments.base_offsets, segments.active.base_offset) == (3, [0, 10, 20], 20)
    assert (segments.end_offset, segments.durable_offset) == (30, 30)
    assert segments.durable_mark == (30, segments.active, segments.active.size_bytes)
    assert segments.size_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.log"))


def test_view_of_a_reader_is_unchanged_when_segments_are_replaced(tmp_path: Path) -> None:
    segments = filled(tmp_path)
    view = segments.view
    segments.replace(view.segments[1:])
    assert (view.base_offsets, segments.base_offsets) == ([0, 10, 20], [10, 20])
    assert [segment.base_offset for segment in view.from_offset(15)] == [10, 20]


def test_local_start_is_the_first_local_segment_unless_the_log_starts_later(tmp_path: Path) -> None:
    segments = filled(tmp_path)
    segments.replace(segments.view.segments[1:])
    assert segments.local_start_offset == 10
    segments.start_offset = 17
    assert segments.local_start_offset == 17


def test_number_of_open_closed_segments_is_bounded(tmp_path: Path) -> None:
    segments = filled(tmp_path, LogConfig(closed_segments_open_max=2), count=5)
    for segment in segments.view.segments[:-1]:
        segment.synced_bytes = segment.size_bytes
        segment.file()
        segments.keep_open(segment)
    assert [segment.is_open for segment in segments.view.segments] == [False, False, True, True, True]


def test_segment_that_is_not_synced_is_never_released(tmp_path: Path) -> None:
    segments = filled(tmp_path, LogConfig(closed_segments_open_max=0))
    first = segments.view.segments[0]
    first.synced_bytes = 0
    segments.keep_open(first)
    assert first.is_open


def test_segment_that_cannot_be_created_leaves_no_file(tmp_path: Path) -> None:
    files = FailingFileSystem()
    folder = open_folder(tmp_path, files=files)
    files.fail("create", "*.timeindex", error_number=errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        Segments(folder).create(0)
    assert list(tmp_path.iterdir()) == []
    assert (folder.read_only_reason, folder.names_changed) == (None, 0)


def test_log_is_read_only_if_an_unfinished_segment_cannot_be_removed(tmp_path: Path) -> None:
    files = FailingFileSystem()
    events: list[tuple[str, Mapping[str, object]]] = []
    folder = open_folder(tmp_path, files=files, events=events)
    files.fail("create", "*.timeindex", error_number=errno.ENOSPC)
    files.fail("remove", "*.log")
    with pytest.raises(OSError, match="No space"):
        Segments(folder).create(0)
    assert "neither created" in str(folder.read_only_reason)
    assert [name for name, _ in events] == ["log_read_only"]


@given(st.lists(st.integers(0, 100), min_size=1, unique=True), st.integers(0, 110))
def test_segment_of_an_offset_is_the_last_that_starts_at_or_before_it(bases: list[int], offset: int) -> None:
    bases.sort()
    found = floor_segment(bases, offset)
    assert bases[found] <= offset or found == 0
    assert all(base > offset for base in bases[found + 1 :])
