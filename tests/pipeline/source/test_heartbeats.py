"""The source of heartbeats: one row for each new heartbeat that a job requests. `test_idle_watch` runs it in jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipeline.source.heartbeats import HeartbeatsReader, signal_file
from headrace.pipeline.source.offsets import HEARTBEAT_OFFSET, is_heartbeat


@pytest.fixture
def signal(tmp_path: Path) -> Path:
    return tmp_path / "signal"


@pytest.fixture
def reader(signal: Path) -> HeartbeatsReader:
    return HeartbeatsReader(signal)


def beats(reader: HeartbeatsReader, start: dict[str, int], end: dict[str, int]) -> list[tuple[int]]:
    return [row for partition in reader.partitions(start, end) for row in reader.read(partition)]


def test_there_is_no_heartbeat_before_a_request(reader: HeartbeatsReader) -> None:
    start = reader.initialOffset()
    assert is_heartbeat(start)
    assert reader.latestOffset(start, None) == start
    assert beats(reader, start, start) == []


def test_newest_request_is_one_row(reader: HeartbeatsReader, signal: Path) -> None:
    start = reader.initialOffset()
    for requested_us in (5, 7):
        signal.write_text(str(requested_us))
    end = reader.latestOffset(start, None)
    assert beats(reader, start, end) == [(7,)]
    assert beats(reader, end, reader.latestOffset(end, None)) == []


def test_heartbeats_never_go_back(reader: HeartbeatsReader, signal: Path) -> None:
    start = {HEARTBEAT_OFFSET: 7}
    signal.write_text("5")
    assert reader.latestOffset(start, None) == start
    signal.unlink()
    assert reader.latestOffset(start, None) == start


def test_batch_that_is_repeated_has_the_same_heartbeat(reader: HeartbeatsReader, signal: Path) -> None:
    signal.write_text("9")
    assert beats(reader, {HEARTBEAT_OFFSET: 5}, {HEARTBEAT_OFFSET: 7}) == [(7,)]


def test_sources_have_files_of_their_own() -> None:
    assert signal_file("a") != signal_file("b")
