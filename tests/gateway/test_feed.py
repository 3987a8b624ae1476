from __future__ import annotations

from headrace.gateway.feed import Feed
from headrace.gateway.records import RECORD_BYTES, Record


def record(partition: int, offset: int, value: bytes = b"") -> Record:
    return Record(
        topic="t", partition=partition, offset=offset, timestamp_ms=0, key=None, value=value, headers=[]
    )


def feed(records_max: int = 100, bytes_max: int = 1_000_000) -> Feed:
    return Feed("t", {0: 10, 1: 0}, records_max=records_max, bytes_max=bytes_max)


def kept(found: Feed, number: int = 0) -> list[tuple[int, int]]:
    return [
        (each.record.partition, each.record.offset) for each in found.since(max(number, found.first), 1000)
    ]


def test_newest_records_are_kept_and_the_offsets_before_them_are_known() -> None:
    found = feed(records_max=3)
    for offset in range(10, 1_000):
        found.append([record(0, offset)])
    assert (found.first, found.end, found.before_first) == (987, 990, {0: 997, 1: 0})
    assert kept(found) == [(0, 997), (0, 998), (0, 999)]


def test_large_records_push_out_others_but_the_newest_stays() -> None:
    found = feed(bytes_max=RECORD_BYTES * 4)
    found.append([record(0, 10), record(0, 11)])
    found.append([record(0, 12, b"x" * RECORD_BYTES * 5)])
    assert kept(found) == [(0, 12)]


def test_record_that_comes_twice_is_kept_once() -> None:
    found = feed()
    found.append([record(0, 10), record(0, 9), record(0, 10), record(1, 0)])
    assert kept(found) == [(0, 10), (1, 0)]


def test_reader_finds_its_place_by_its_offsets() -> None:
    found = feed()
    found.append([record(0, 10), record(1, 0), record(0, 11), record(1, 1)])
    assert found.place_of({0: 12, 1: 2}) == (4, {0: 12, 1: 2})
    assert found.place_of({0: 11, 1: 1}) == (2, {0: 11, 1: 1})
    assert found.place_of({0: 12, 1: 0})[0] == 1
    assert found.place_of({0: 99, 1: 2})[0] == 4, "it has read further than the feed"


def test_feed_without_an_older_record_that_a_reader_needs_says_so() -> None:
    found = feed(records_max=2)
    found.append([record(0, 10), record(1, 0), record(1, 1)])
    assert found.has_all_after({0: 11, 1: 0})
    assert not found.has_all_after({0: 10, 1: 0})


def test_partition_that_was_added_is_followed_from_its_start() -> None:
    found = feed()
    found.add_partition(2, 0)
    found.append([record(2, 0)])
    assert found.at_end[2] == 1
    assert found.has_all_after({0: 10, 1: 0})


def test_waiting_readers_are_woken() -> None:
    found, woken = feed(), []
    found.wakers.add(lambda: woken.append(1))
    found.append([record(0, 10)])
    assert woken == [1]
