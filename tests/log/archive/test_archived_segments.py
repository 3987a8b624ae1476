"""The list of archived segments, and plans what to archive and what to remove."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.log.archive.archived_segments import (
    ArchivedSegment,
    decode_list,
    encode_list,
    end_of,
    entries_before,
    entries_from,
    plan_local_removal,
    plan_uploads,
)
from headrace.log.config import LogConfig
from headrace.log.damage import missing_offsets
from headrace.log.errors import InvalidFile
from headrace.log.retention import RetentionSegment
from tests.log.batches import NOW_MS, batch, open_log

ENTRY = ArchivedSegment(
    base_offset=0,
    next_offset=10,
    size_bytes=1000,
    max_timestamp_ms=500,
    written_ms=600,
    aborted_transactions=0,
    manifest_crc32c=7,
)


def entries(*spans: tuple[int, int]) -> tuple[ArchivedSegment, ...]:
    return tuple(replace(ENTRY, base_offset=base, next_offset=end) for base, end in spans)


def local(*base_offsets: int, size_bytes: int = 100, max_timestamp_ms: int = 0) -> list[RetentionSegment]:
    return [
        RetentionSegment(base_offset=base, size_bytes=size_bytes, max_timestamp_ms=max_timestamp_ms)
        for base in base_offsets
    ]


@given(st.data())
def test_list_that_was_cut_or_changed_is_rejected(data: st.DataObject) -> None:
    content = encode_list(entries((0, 10), (10, 25), (25, 40)))
    cut = data.draw(st.integers(0, len(content) - 2))
    with pytest.raises(InvalidFile):
        decode_list(content[:cut])


def test_list_with_overlapping_segments_is_rejected() -> None:
    with pytest.raises(InvalidFile, match="overlaps"):
        decode_list(encode_list(entries((0, 10), (9, 25))))


def test_local_copies_are_removed_only_when_they_are_archived() -> None:
    config = LogConfig(local_retention_ms=0, retention_ms=-1)
    segments = local(0, 10, 20, 30)

    def removed(archived_end: int) -> int:
        return plan_local_removal(segments, archived_end=archived_end, now_ms=1000, config=config)

    assert [removed(end) for end in (-1, 5, 10, 20, 29, 30)] == [0, 0, 1, 2, 2, 3]


def test_active_segment_is_never_removed() -> None:
    config = LogConfig(local_retention_bytes=0, retention_ms=-1)
    assert plan_local_removal(local(0, 10), archived_end=999, now_ms=0, config=config) == 1
    assert plan_local_removal(local(0), archived_end=999, now_ms=0, config=config) == 0


def test_local_retention_is_that_of_the_whole_unless_it_is_set() -> None:
    segments = local(0, 10, 20, max_timestamp_ms=500)

    def removed(**config: Any) -> int:
        return plan_local_removal(segments, archived_end=20, now_ms=1000, config=LogConfig(**config))

    assert removed(retention_ms=400) == 2
    assert removed(retention_ms=600) == 0
    assert removed(retention_ms=600, local_retention_ms=400) == 2
    assert removed(retention_ms=600, local_retention_ms=-1) == 0
    assert removed(retention_bytes=250) == 0
    assert removed(retention_bytes=1000, local_retention_bytes=150) == 1


@given(st.lists(st.integers(1, 1000), max_size=6))
def test_list_survives_being_written(lengths: list[int]) -> None:
    ends = [sum(lengths[: number + 1]) for number in range(len(lengths))]
    listed = entries(*zip([0, *ends], ends, strict=False))
    assert decode_list(encode_list(listed)) == listed


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff", b'{"version": 9, "segments": 0}', b'{"version": 1, "segments": 1}\n{}'],
)
def test_something_else_is_not_a_list(content: bytes) -> None:
    with pytest.raises(InvalidFile):
        decode_list(content)


@given(offset=st.integers(0, 45))
def test_entries_are_found_by_offset(offset: int) -> None:
    listed = entries((0, 10), (10, 25), (30, 40))
    assert entries_from(listed, offset) == tuple(entry for entry in listed if entry.next_offset > offset)
    assert entries_before(listed, offset) == tuple(entry for entry in listed if entry.base_offset < offset)
    assert (end_of(listed), end_of(())) == (40, -1)


def test_age_without_timestamps_is_that_of_the_file() -> None:
    assert ENTRY.for_retention().max_timestamp_ms == 500
    assert replace(ENTRY, max_timestamp_ms=-1).for_retention().max_timestamp_ms == 600


def test_closed_durable_segments_are_uploaded_in_order_up_to_the_first_damaged_one(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes_max=400))
    for number in range(30):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    segments = log.segments.view.segments
    assert len(segments) > 4

    def planned(archived: tuple[ArchivedSegment, ...] = (), *, start: int = 0, below: int = 30) -> list[int]:
        found = plan_uploads(segments, archived, start_offset=start, below_offset=below)
        return [segments.index(segment) for segment in found]

    closed = list(range(len(segments) - 1))
    assert planned() == closed
    assert planned(entries((0, segments[1].next_offset))) == closed[2:]
    assert planned(start=segments[1].base_offset) == closed[1:]
    assert planned(below=segments[1].next_offset) == closed[:2]
    assert planned(below=segments[1].next_offset - 1) == closed[:1]
    segments[2].damages = (missing_offsets(segments[2].path, 0, 0, 1),)
    assert planned() == closed[:2]
