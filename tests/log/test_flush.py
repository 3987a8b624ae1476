"""What a flush covers, and what it leaves for the next."""

from __future__ import annotations

from pathlib import Path

from headrace.log.config import LogConfig
from headrace.records.batch import (
    iterate_headers,
)
from tests.log.batches import NOW_MS, batch, open_log

SMALL = LogConfig(segment_bytes_max=2000, index_interval_bytes=200)


def test_flush_covers_only_what_was_there_when_it_began(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    log.append(batch(b"a"), now_ms=NOW_MS)
    first = log.flusher.begin()
    while len(log.segments) < 3:
        log.append(batch(b"more" * 20), now_ms=NOW_MS)
    second = log.flusher.begin()
    log.append(batch(b"last"), now_ms=NOW_MS)
    first.sync()
    log.flusher.finish(first)
    assert log.durable_offset == 1
    found = bytes(log.reader.read(0, bytes_max=10_000, end_offset=log.durable_offset, at_least_one=True))
    assert [header.next_offset for _, header in iterate_headers(found)] == [1]
    second.sync()
    log.flusher.finish(second)
    assert log.durable_offset == log.end_offset - 1
    assert second.flushed_bytes > first.flushed_bytes > 0
    log.flush()
    assert log.durable_offset == log.end_offset
    assert log.flusher.begin().unsynced == ()
