"""Producer snapshots: which are kept, and the state that they restore."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from headrace.log.config import LogConfig
from headrace.log.partition_log import PartitionLog
from headrace.log.producer_state import ProducerStates
from headrace.log.recovery.snapshots import ProducerSnapshots, snapshot_offsets, snapshot_path
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.log.batches import NOW_MS, batch, open_log

CONFIG = LogConfig(segment_bytes_max=20_000, index_interval_bytes=1000)


def test_checkpoint_keeps_two_snapshots(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(5):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
        log.flush()
        assert log.checkpoint(NOW_MS) == number + 1
    assert sorted(int(path.stem) for path in tmp_path.glob("*.snapshot")) == [4, 5]


def test_newest_usable_snapshot_is_restored_and_the_rest_replayed(tmp_path: Path) -> None:
    events: list[tuple[str, Mapping[str, object]]] = []
    log = open_log(tmp_path, CONFIG, events=events)
    expected = fill_and_checkpoint(log)
    (newest, *_) = snapshot_offsets(os.listdir(tmp_path))
    for damage in (b"", b"no snapshot", bytes(100)):
        Path(snapshot_path(str(tmp_path), newest)).write_bytes(damage)
        events.clear()
        producers = ProducerStates(producer_ids_max=10)
        ProducerSnapshots(log.segments, producers).restore(os.listdir(tmp_path))
        assert producers.encode() == expected
        assert [name for name, _ in events] == ["producer_snapshot_ignored"]


def test_snapshot_of_batches_that_the_log_lost_is_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    expected = fill_and_checkpoint(log)
    beyond = Path(snapshot_path(str(tmp_path), log.end_offset + 1))
    beyond.write_bytes(expected)
    producers = ProducerStates(producer_ids_max=10)
    snapshots = ProducerSnapshots(log.segments, producers)
    snapshots.restore(os.listdir(tmp_path))
    assert producers.encode() == expected
    assert not beyond.exists()
    assert snapshots.is_current


def test_snapshot_that_cannot_be_written_is_an_event_and_no_error(tmp_path: Path) -> None:
    files = FailingFileSystem()
    events: list[tuple[str, Mapping[str, object]]] = []
    log = open_log(tmp_path, CONFIG, files=files, events=events)
    log.append(batch(b"a"), now_ms=NOW_MS)
    log.flush()
    files.fail("write_whole", "*.snapshot")
    assert log.checkpoint(NOW_MS) == 1
    assert [name for name, _ in events] == ["checkpoint_failed"]


def test_offsets_of_snapshots_are_newest_first_and_other_files_are_skipped() -> None:
    assert snapshot_offsets(
        ["00000000000000000007.snapshot", "x.snapshot", "00000000000000000042.snapshot", "1.log"]
    ) == [42, 7]


def fill_and_checkpoint(log: PartitionLog) -> bytes:
    """Write batches of a producer with a checkpoint between them; the state of the producers at the end."""
    for sequence in range(4):
        sent = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append(sent, now_ms=NOW_MS)
        log.flush()
        log.checkpoint(NOW_MS)
    return log.producers.encode()
