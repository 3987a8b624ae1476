"""Indexes are a shortcut: right when they can be, thrown away when they cannot."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.index import OffsetIndex, TimeIndex

steps = st.lists(st.tuples(st.integers(1, 50), st.integers(61, 5000)), max_size=30)


def offset_index(entries: list[tuple[int, int]]) -> tuple[OffsetIndex, list[tuple[int, int]], int]:
    index = OffsetIndex(1000)
    offset, position = 1000, 0
    pairs = []
    for offset_step, position_step in entries:
        offset += offset_step
        position += position_step
        index.append(offset, position)
        pairs.append((offset, position))
    return index, pairs, position + 61


@given(steps)
def test_offset_index_survives_the_disk(entries: list[tuple[int, int]]) -> None:
    index, pairs, segment_bytes = offset_index(entries)
    content = index.encode_from(0)
    assert content == b"".join(struct.pack(">ii", offset - 1000, position) for offset, position in pairs)
    loaded = OffsetIndex.decode(content, 1000, segment_bytes)
    assert loaded is not None
    assert (loaded.relative_offsets, loaded.positions) == (index.relative_offsets, index.positions)


@given(steps, st.integers(1000, 3000))
def test_lookup_returns_the_last_entry_at_or_before_the_offset(
    entries: list[tuple[int, int]], offset: int
) -> None:
    index, pairs, _ = offset_index(entries)
    expected = max((position for entry, position in pairs if entry <= offset), default=0)
    assert index.position_at_or_before(offset) == expected


@given(steps, st.integers(0, 100_000))
def test_boundary_is_the_last_entry_at_or_before_the_position(
    entries: list[tuple[int, int]], position: int
) -> None:
    index, pairs, _ = offset_index(entries)
    assert index.boundary_before(position) == max((at for _, at in pairs if at <= position), default=0)
    index.truncate(position)
    assert list(index.positions) == [at for _, at in pairs if at < position]


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 7,
        struct.pack(">iiii", 5, 100, 5, 200),
        struct.pack(">iiii", 5, 100, 6, 100),
        struct.pack(">iiii", 5, 100, 4, 200),
        struct.pack(">ii", -1, 100),
        struct.pack(">ii", 1, 1000),
        struct.pack(">iiii", 5, 100, 0, 0),
    ],
)
def test_offset_index_that_cannot_be_is_rejected(content: bytes) -> None:
    assert OffsetIndex.decode(content, 0, 1000) is None


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 500)), max_size=30), st.integers(0, 1001))
def test_time_index_never_points_past_the_first_later_record(
    records: list[tuple[int, int]], wanted_ms: int
) -> None:
    index = TimeIndex(50)
    largest = (-1, 50)
    for number, (timestamp_ms, _) in enumerate(records):
        largest = max(largest, (timestamp_ms, 50 + number), key=lambda entry: entry[0])
        index.append_if_later(*largest)
    first_later = next((50 + n for n, (time_ms, _) in enumerate(records) if time_ms >= wanted_ms), None)
    if first_later is not None:
        assert index.offset_before(wanted_ms) <= first_later
    loaded = TimeIndex.decode(index.encode_from(0), 50)
    assert loaded is not None
    assert (loaded.timestamps_ms, loaded.relative_offsets) == (index.timestamps_ms, index.relative_offsets)


@pytest.mark.parametrize("content", [b"\0" * 11, struct.pack(">qiqi", 5, 0, 5, 1), struct.pack(">qi", -5, 0)])
def test_time_index_that_cannot_be_is_rejected(content: bytes) -> None:
    assert TimeIndex.decode(content, 0) is None
