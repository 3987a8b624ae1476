"""The archive as values and plans: names, manifest, list, what is to be copied, what may go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.log.archive.archived_segments import (
    ArchivedSegment,
    decode_list,
    encode_list,
    plan_local_removal,
)
from headrace.log.archive.manifest import FileSum, Manifest, decode_manifest, encode_manifest
from headrace.log.archive.object_names import base_offset_of, object_names, object_prefix
from headrace.log.config import LogConfig
from headrace.log.errors import InvalidFile
from headrace.log.retention import RetentionSegment

ENTRY = ArchivedSegment(
    base_offset=0,
    next_offset=10,
    size_bytes=1000,
    max_timestamp_ms=500,
    written_ms=600,
    aborted_transactions=0,
    manifest_crc32c=7,
)
MANIFEST = Manifest(
    topic="orders",
    topic_id="some-id",
    partition=3,
    base_offset=0,
    next_offset=10,
    max_timestamp_ms=500,
    written_ms=600,
    aborted_transactions=2,
    leader_epochs=((0, 0), (3, 7)),
    chunk_bytes=400,
    files={".log": FileSum(size_bytes=1000, crc32c=1, chunk_crcs=(1, 2, 3))},
    archived_ms=900,
)


def entries(*spans: tuple[int, int]) -> tuple[ArchivedSegment, ...]:
    return tuple(replace(ENTRY, base_offset=base, next_offset=end) for base, end in spans)


def local(*base_offsets: int, size_bytes: int = 100, max_timestamp_ms: int = 0) -> list[RetentionSegment]:
    return [
        RetentionSegment(base_offset=base, size_bytes=size_bytes, max_timestamp_ms=max_timestamp_ms)
        for base in base_offsets
    ]


def test_manifest_comes_first_in_what_is_deleted() -> None:
    names = object_names(object_prefix("id", 3), 42)
    assert names[0] == "id/3/00000000000000000042.manifest"
    assert names[-1] == "id/3/00000000000000000042.log"
    assert {base_offset_of(name) for name in names} == {42}
    assert base_offset_of("id/3/readme.txt") is None


def test_manifest_and_list_survive_being_written() -> None:
    assert decode_manifest(encode_manifest(MANIFEST)) == MANIFEST
    listed = entries((0, 10), (10, 25))
    assert decode_list(encode_list(listed)) == listed
    assert decode_list(encode_list(())) == ()


@given(st.data())
def test_list_that_was_cut_or_changed_is_never_believed_silently(data: st.DataObject) -> None:
    content = encode_list(entries((0, 10), (10, 25), (25, 40)))
    cut = data.draw(st.integers(0, len(content) - 2))
    with pytest.raises(InvalidFile):
        decode_list(content[:cut])


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff", b'{"version": 9, "segments": 0}', b'{"version": 1, "segments": 1}\n{}'],
)
def test_something_else_is_no_list_and_no_manifest(content: bytes) -> None:
    with pytest.raises(InvalidFile):
        decode_list(content)
    with pytest.raises(InvalidFile):
        decode_manifest(content)


def test_list_with_overlapping_segments_is_refused() -> None:
    with pytest.raises(InvalidFile, match="overlaps"):
        decode_list(encode_list(entries((0, 10), (9, 25))))


def test_local_copies_go_only_when_they_are_archived() -> None:
    config = LogConfig(local_retention_ms=0, retention_ms=-1)
    segments = local(0, 10, 20, 30)

    def removed(archived_end: int) -> int:
        return plan_local_removal(segments, archived_end=archived_end, now_ms=1000, config=config)

    assert [removed(end) for end in (-1, 5, 10, 20, 29, 30)] == [0, 0, 1, 2, 2, 3]


def test_active_segment_always_stays() -> None:
    config = LogConfig(local_retention_bytes=0, retention_ms=-1)
    assert plan_local_removal(local(0, 10), archived_end=999, now_ms=0, config=config) == 1
    assert plan_local_removal(local(0), archived_end=999, now_ms=0, config=config) == 0


def test_local_retention_is_that_of_the_whole_unless_it_is_told_otherwise() -> None:
    segments = local(0, 10, 20, max_timestamp_ms=500)

    def removed(**config: Any) -> int:
        return plan_local_removal(segments, archived_end=20, now_ms=1000, config=LogConfig(**config))

    assert removed(retention_ms=400) == 2
    assert removed(retention_ms=600) == 0
    assert removed(retention_ms=600, local_retention_ms=400) == 2
    assert removed(retention_ms=600, local_retention_ms=-1) == 0
    assert removed(retention_bytes=250) == 0
    assert removed(retention_bytes=1000, local_retention_bytes=150) == 1
