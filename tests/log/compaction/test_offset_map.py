from __future__ import annotations

from headrace.log.compaction.offset_map import build_offset_map
from headrace.log.config import LogConfig
from tests.log.compaction.cleaning_lab import (
    keyed_batch,
)


def test_map_takes_at_least_one_batch_and_stops_between_batches_when_full() -> None:
    batches = [
        keyed_batch(0, ("a", "1"), ("b", "1"), ("c", "1")),
        keyed_batch(3, ("d", "1")),
        keyed_batch(4, ("e", "1")),
    ]
    covered = []
    for entries_max in (1, 3, 4, 5, 6):
        built = build_offset_map(batches, LogConfig(), first_dirty_offset=0, entries_max=entries_max)
        covered.append((built.latest_offset, built.is_full))
    assert covered == [(2, True), (2, True), (3, True), (4, False), (4, False)]


def test_map_skips_clean_records() -> None:
    batches = [keyed_batch(0, ("a", "1"), ("b", "1")), keyed_batch(2, ("c", "1"))]
    built = build_offset_map(batches, LogConfig(), first_dirty_offset=1, entries_max=10)
    assert sorted(built.offsets.values()) == [1, 2]
    assert not built.is_superseded(b"c", 2)
    assert built.is_superseded(b"c", 1)
    assert not built.is_superseded(b"a", 0)


def test_map_of_clean_batches_covers_nothing() -> None:
    batches = [keyed_batch(0, ("a", "1"), ("b", "1"))]
    built = build_offset_map(batches, LogConfig(), first_dirty_offset=5, entries_max=10)
    assert (built.offsets, built.latest_offset, built.is_full) == ({}, 4, False)


def test_map_keeps_a_digest_of_a_key_however_long_it_is() -> None:
    batch = keyed_batch(0, ("k" * 10_000, "1"))
    built = build_offset_map([batch], LogConfig(), first_dirty_offset=0, entries_max=10)
    assert [len(digest) for digest in built.offsets] == [16]
