"""What a log remembers of its producers, and the file it remembers it in."""

from __future__ import annotations

import struct

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.errors import DuplicateSequence, InvalidFile, OutOfOrderSequence
from headrace.log.producer_state import ProducerStates


def states(producer_ids_max: int = 100) -> ProducerStates:
    return ProducerStates(producer_ids_max=producer_ids_max)


def add(
    producers: ProducerStates,
    first: int,
    last: int,
    offset: int,
    *,
    producer_id: int = 1,
    checksum: int = 0,
    now_ms: int = 0,
) -> None:
    last_offset = offset + (last - first) % 2**31
    producers.update(producer_id, 0, first, last, offset, last_offset, checksum, now_ms)


def transaction(producers: ProducerStates, *batches: tuple[int, int, int], is_commit: bool) -> None:
    """Batches as (first sequence, last sequence, checksum), each at the offset of its first sequence, and their end."""
    for first, last, checksum in batches:
        add(producers, first, last, first, checksum=checksum)
        producers.begin_transaction(1, first)
    producers.end_transaction(1, 0, 0, 0, is_commit=is_commit)


def restarted(producers: ProducerStates) -> ProducerStates:
    loaded = states()
    loaded.load(producers.encode())
    return loaded


def test_sequence_numbers_wrap_around() -> None:
    producers = states()
    add(producers, 2**31 - 2, 2**31 - 1, 0)
    assert producers.check(1, 0, 0, 3, 0) is None
    add(producers, 0, 3, 2)
    again = producers.check(1, 0, 2**31 - 2, 2**31 - 1, 0)
    assert again is not None
    assert again.base_offset == 0
    with pytest.raises(OutOfOrderSequence):
        producers.check(1, 0, 5, 5, 0)
    with pytest.raises(DuplicateSequence):
        producers.check(1, 0, 2**31 - 5, 2**31 - 4, 0)


def test_retry_of_another_size_is_no_retry() -> None:
    producers = states()
    add(producers, 0, 4, 0)
    with pytest.raises(OutOfOrderSequence):
        producers.check(1, 0, 0, 3, 0)


@pytest.mark.parametrize("last_sequence", [11, 14, 17], ids=["shorter", "as long", "longer"])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "after a restart"])
def test_sequence_of_an_aborted_batch_with_other_records_is_a_new_batch(
    restarts: bool, last_sequence: int
) -> None:
    producers = states()
    transaction(producers, (0, 9, 1), is_commit=True)
    transaction(producers, (10, 14, 2), (15, 19, 3), is_commit=False)
    if restarts:
        producers = restarted(producers)
    assert producers.check(1, 0, 10, last_sequence, 77) is None
    add(producers, 10, last_sequence, 21, checksum=77)
    if restarts:
        producers = restarted(producers)
    again = producers.check(1, 0, 10, last_sequence, 77)
    assert again is not None, "a retry of the new batch"
    assert again.base_offset == 21
    assert producers.check(1, 0, last_sequence + 1, 100, 78) is None, "its sequence continues"


def test_same_numbers_are_a_retry_if_the_records_are_the_same_or_were_not_aborted() -> None:
    producers = states()
    transaction(producers, (0, 9, 1), is_commit=True)
    transaction(producers, (10, 19, 2), is_commit=False)
    add(producers, 20, 29, 20, checksum=3)
    producers.begin_transaction(1, 20)
    for first, checksum in ((0, 99), (10, 2), (20, 99)):
        stored = producers.check(1, 0, first, first + 9, checksum)
        assert stored is not None
        assert stored.base_offset == first


def test_a_batch_whose_numbers_are_used_again_is_waited_for_if_it_could_not_be_stored() -> None:
    producers = states()
    transaction(producers, (0, 4, 1), (5, 9, 2), is_commit=False)
    assert producers.check(1, 0, 0, 4, 77) is None
    # The disk was full: it is not added. The one after it must not replace it.
    with pytest.raises(OutOfOrderSequence):
        producers.check(1, 0, 5, 9, 78)
    assert producers.check(1, 0, 0, 4, 77) is None


def test_snapshot_without_our_section_restores_the_last_batch_of_every_producer() -> None:
    producers = states()
    add(producers, 0, 4, 0)
    add(producers, 5, 9, 5)
    body = producers.encode()[6:]
    cut = body[: body.index(b"HRSB")]
    loaded = states()
    loaded.load(struct.pack(">hI", 1, google_crc32c.value(cut)) + cut)
    again = loaded.check(1, 0, 5, 9, 0)
    assert again is not None
    assert again.base_offset == 5
    assert loaded.check(1, 0, 10, 12, 0) is None


def test_unknown_producer_may_start_with_any_sequence() -> None:
    assert states().check(77, 5, 1234, 1240, 0) is None


def test_producers_idle_for_longest_make_room() -> None:
    producers = states(producer_ids_max=16)
    for producer_id in range(40):
        add(producers, 0, 0, producer_id, producer_id=producer_id, now_ms=producer_id)
    assert len(producers.by_id) <= 16
    assert 39 in producers.by_id
    assert 0 not in producers.by_id


batches = st.lists(st.integers(1, 50), min_size=1, max_size=8)


@given(st.dictionaries(st.integers(0, 2**62), batches, max_size=5), st.integers(0, 2**31 - 1))
def test_snapshot_restores_the_last_five_batches_of_every_producer(
    sizes_by_producer: dict[int, list[int]], first_sequence: int
) -> None:
    producers = states()
    offset = 0
    for producer_id, sizes in sizes_by_producer.items():
        sequence = first_sequence
        for size in sizes:
            last = (sequence + size - 1) % 2**31
            producers.update(producer_id, 3, sequence, last, offset, offset + size - 1, 5, 9)
            sequence, offset = (last + 1) % 2**31, offset + size
    loaded = restarted(producers)
    assert loaded.encode() == producers.encode()
    for producer_id in sizes_by_producer:
        before, after = producers.by_id.get(producer_id), loaded.by_id.get(producer_id)
        assert before is not None
        assert after is not None
        assert (after.epoch, after.seen_ms, list(after.batches)) == (
            before.epoch,
            before.seen_ms,
            list(before.batches),
        )


def test_snapshot_starts_in_the_format_of_kafka() -> None:
    producers = states()
    producers.update(7, 2, 10, 14, 100, 104, 5, 99)
    content = producers.encode()
    version, _, count = struct.unpack_from(">hIi", content)
    assert (version, count) == (1, 1)
    assert struct.unpack_from(">qhiqiqiq", content, 10) == (7, 2, 14, 104, 4, 99, -1, -1)


@given(st.data())
def test_damaged_snapshot_is_rejected(data: st.DataObject) -> None:
    producers = states()
    for number in range(3):
        add(producers, number, number, number)
    content = bytearray(producers.encode())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(InvalidFile):
        states().load(bytes(content))
    with pytest.raises(InvalidFile):
        states().load(producers.encode()[: data.draw(st.integers(0, len(content) - 1))])
