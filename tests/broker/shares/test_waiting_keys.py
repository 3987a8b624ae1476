"""Chunks of waiting records: what a fetch takes of them, and what a member holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.shares.waiting_keys import SMALL_CHUNK_RECORDS, Chunk, Held, ranges_of

KEYS = st.sampled_from((1, 2, 3, 4, None))


def chunk_of(hashes: list[int | None], first: int = 10) -> Chunk:
    return Chunk.of(range(first, first + len(hashes)), hashes, set(hashes), ())


@given(
    st.lists(KEYS, min_size=1, max_size=300),
    st.sets(KEYS, min_size=1),
    st.integers(1, 100),
    st.integers(5, 320),
    st.sets(st.integers(10, 310), max_size=5),
    st.sets(st.integers(10, 310), max_size=5),
)
def test_chunk_gives_records_of_free_keys_in_order(
    hashes: list[int | None],
    wanted: set[int | None],
    records_max: int,
    last: int,
    delayed: set[int],
    unread: set[int],
) -> None:
    chunk = chunk_of(hashes)
    chunk.delayed = {each for each in delayed if each <= chunk.last}
    held_back: set[int | None] = set()
    expected = []
    for offset, key in enumerate(hashes, 10):
        if offset in chunk.delayed | unread:
            held_back.add(key)
        elif offset <= last and key in wanted and (key is None or key not in held_back):
            expected.append((offset, key))
    offsets, keys = chunk.take(wanted & chunk.keys, records_max=records_max, last=last, unread=unread)
    assert [*zip(offsets, keys, strict=True)] == expected[:records_max]
    left = {offset: key for offset, key in enumerate(hashes, 10) if offset not in set(offsets)}
    assert dict(zip(chunk.offsets, chunk.hashes, strict=True)) == left
    assert chunk.keys == set(left.values())


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([], []),
        (range(3, 6), [(3, 5)]),
        ([7], [(7, 7)]),
        ([1, 2, 4, 7, 8], [(1, 2), (4, 4), (7, 8)]),
    ],
)
def test_consecutive_offsets_are_one_range(offsets: list[int], expected: list[tuple[int, int]]) -> None:
    assert [(one.first, one.last) for one in ranges_of(offsets)] == expected


def test_small_batches_share_a_chunk_and_large_ones_do_not() -> None:
    assert chunk_of([1]).may_hold(10 + SMALL_CHUNK_RECORDS - 1)
    assert not chunk_of([1]).may_hold(10 + SMALL_CHUNK_RECORDS)
    large = chunk_of([1] * SMALL_CHUNK_RECORDS)
    assert large.may_hold(large.last)
    assert not large.may_hold(large.last + 1)


def test_key_is_free_when_the_last_of_its_records_is_finished() -> None:
    held = Held()
    held.add(range(3), [1, 2, 1], {1, 2})
    assert held.remove([0]) == set()
    held.add([9], [3], {3})
    assert held.remove([2, 9]) == {1, 3}
    assert (held.records, held.keys, held.key(1)) == (1, {2}, 2)
