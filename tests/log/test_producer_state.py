"""What a log remembers of its producers, and the file it remembers it in."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.errors import DuplicateSequence, OutOfOrderSequence
from headrace.log.producer_state import InvalidSnapshot, ProducerStates


def states(producer_ids_max: int = 100) -> ProducerStates:
    return ProducerStates(producer_ids_max=producer_ids_max)


def add(
    producers: ProducerStates, first: int, last: int, offset: int, *, producer_id: int = 1, now_ms: int = 0
) -> None:
    producers.update(producer_id, 0, first, last, offset, offset + (last - first) % 2**31, now_ms)


def test_sequence_numbers_wrap_around() -> None:
    producers = states()
    add(producers, 2**31 - 2, 2**31 - 1, 0)
    assert producers.check(1, 0, 0, 3) is None
    add(producers, 0, 3, 2)
    again = producers.check(1, 0, 2**31 - 2, 2**31 - 1)
    assert again is not None
    assert again.base_offset == 0
    with pytest.raises(OutOfOrderSequence):
        producers.check(1, 0, 5, 5)
    with pytest.raises(DuplicateSequence):
        producers.check(1, 0, 2**31 - 5, 2**31 - 4)


def test_retry_of_another_size_is_no_retry() -> None:
    producers = states()
    add(producers, 0, 4, 0)
    with pytest.raises(DuplicateSequence):
        producers.check(1, 0, 0, 3)


def test_unknown_producer_may_begin_anywhere() -> None:
    assert states().check(77, 5, 1234, 1240) is None


def test_producers_idle_for_longest_make_room() -> None:
    producers = states(producer_ids_max=16)
    for producer_id in range(40):
        add(producers, 0, 0, producer_id, producer_id=producer_id, now_ms=producer_id)
    assert len(producers) <= 16
    assert 39 in producers
    assert 0 not in producers


batches = st.lists(st.integers(1, 50), min_size=1, max_size=8)


@given(st.dictionaries(st.integers(0, 2**62), batches, max_size=5), st.integers(0, 2**31 - 1))
def test_snapshot_gives_back_the_last_five_batches_of_every_producer(
    sizes_by_producer: dict[int, list[int]], first_sequence: int
) -> None:
    producers = states()
    offset = 0
    for producer_id, sizes in sizes_by_producer.items():
        sequence = first_sequence
        for size in sizes:
            last = (sequence + size - 1) % 2**31
            producers.update(producer_id, 3, sequence, last, offset, offset + size - 1, 9)
            sequence, offset = (last + 1) % 2**31, offset + size
    loaded = states()
    loaded.load(producers.encode())
    assert loaded.encode() == producers.encode()
    for producer_id in sizes_by_producer:
        before, after = producers.get(producer_id), loaded.get(producer_id)
        assert before is not None
        assert after is not None
        assert (after.epoch, after.seen_ms, list(after.batches)) == (
            before.epoch,
            before.seen_ms,
            list(before.batches),
        )


def test_snapshot_begins_as_kafka_writes_it() -> None:
    producers = states()
    producers.update(7, 2, 10, 14, 100, 104, 99)
    content = producers.encode()
    version, _, count = struct.unpack_from(">hIi", content)
    assert (version, count) == (1, 1)
    assert struct.unpack_from(">qhiqiqiq", content, 10) == (7, 2, 14, 104, 4, 99, -1, -1)


@given(st.data())
def test_damaged_snapshot_is_refused(data: st.DataObject) -> None:
    producers = states()
    for number in range(3):
        add(producers, number, number, number)
    content = bytearray(producers.encode())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(InvalidSnapshot):
        states().load(bytes(content))
    with pytest.raises(InvalidSnapshot):
        states().load(producers.encode()[: data.draw(st.integers(0, len(content) - 1))])
