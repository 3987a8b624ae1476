"""A log whose last bytes were lost: whole batches are kept, a torn one is truncated, and appends continue."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.records.batch import iterate_headers
from tests.log.batches import NOW_MS, NotSyncing, batch, open_log, read_all, values

CONFIG = LogConfig(index_interval_bytes=100)
LOG = "00000000000000000000.log"


def written_log(directory: Path, config: LogConfig = CONFIG) -> bytes:
    log = open_log(directory, config)
    for number in range(6):
        log.append(
            batch(
                b"value %d" % number, b"x" * number, producer_id=4, producer_epoch=0, base_sequence=2 * number
            ),
            now_ms=NOW_MS,
        )
    log.flush()
    return (directory / LOG).read_bytes()


def test_tail_cut_at_every_byte_keeps_every_whole_batch(tmp_path: Path) -> None:
    content = written_log(tmp_path / "original")
    ends = [0] + [position + header.size_bytes for position, header in iterate_headers(content)]
    for size in range(len(content) + 1):
        directory = tmp_path / "cut"
        shutil.copytree(tmp_path / "original", directory)
        (directory / LOG).write_bytes(content[:size])
        events: list[tuple[str, Mapping[str, object]]] = []
        log = open_log(directory, CONFIG, files=NotSyncing(), events=events)
        whole = max(number for number, end in enumerate(ends) if end <= size)
        assert log.end_offset == 2 * whole, size
        assert log.read_only_reason is None
        assert (directory / LOG).stat().st_size == ends[whole]
        cut = [fields for name, fields in events if name == "torn_tail_cut"]
        assert [(fields["position"], fields["bytes"]) for fields in cut] == (
            [(ends[whole], size - ends[whole])] if size > ends[whole] else []
        )
        expected = [value for n in range(whole) for value in (b"value %d" % n, b"x" * n)]
        next_one = batch(b"next", b"", producer_id=4, producer_epoch=0, base_sequence=2 * whole)
        assert log.append(next_one, now_ms=NOW_MS).base_offset == 2 * whole
        assert values(read_all(log)) == [*expected, b"next", b""]
        shutil.rmtree(directory)


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 5000, b"\xff" * 300, b"\0" * 16 + b"\x02" + b"\0" * 100])
def test_garbage_after_the_last_batch_is_truncated(tmp_path: Path, tail: bytes) -> None:
    content = written_log(tmp_path)
    (tmp_path / LOG).write_bytes(content + tail)
    log = open_log(tmp_path, CONFIG)
    assert (log.end_offset, log.read_only_reason) == (12, None)
    assert (tmp_path / LOG).read_bytes() == content


def test_tail_torn_before_an_empty_new_segment_is_cut_and_the_new_one_dropped(tmp_path: Path) -> None:
    content = written_log(tmp_path)
    (tmp_path / LOG).write_bytes(content[:-5])
    for suffix in ("log", "index", "timeindex"):
        (tmp_path / f"00000000000000000012.{suffix}").touch()
    log = open_log(tmp_path, CONFIG)
    assert (log.end_offset, len(log.segments), log.read_only_reason) == (10, 1, None)
    assert log.append(batch(b"again"), now_ms=NOW_MS).base_offset == 10
    assert not list(tmp_path.glob("*12.*"))


def test_lost_indexes_and_snapshots_are_rebuilt(tmp_path: Path) -> None:
    written_log(tmp_path)
    for path in [*tmp_path.glob("*index"), *tmp_path.glob("*.snapshot"), *tmp_path.glob("leader*")]:
        path.unlink()
    log = open_log(tmp_path, CONFIG)
    assert len(read_all(log)) == 12
    again = log.append(
        batch(b"value 5", b"x" * 5, producer_id=4, producer_epoch=0, base_sequence=10), now_ms=NOW_MS
    )
    assert (again.duplicate, again.base_offset) == (True, 10)


def test_files_shorter_than_after_a_clean_stop_are_noticed(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(6):
        log.append(batch(b"value %d" % number), now_ms=NOW_MS)
    closed = log.close()
    content = (tmp_path / LOG).read_bytes()
    (tmp_path / LOG).write_bytes(content[:-3])
    events: list[tuple[str, Mapping[str, object]]] = []
    again = open_log(tmp_path, CONFIG, was_clean=True, recovery_offset=closed.end_offset, events=events)
    assert (again.end_offset, again.read_only_reason is None) == (6, False)
    assert "segment_damaged" in [name for name, _ in events]
    found = bytes(again.reader.read(4, bytes_max=1000, end_offset=6, at_least_one=True))
    assert [header.base_offset for _, header in iterate_headers(found)] == [4]
