"""Opening a log reads no more than it must, and rebuilds what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.log.batches import NOW_MS, NotSyncing, batch, open_log, read_all, values

CONFIG = LogConfig(segment_bytes_max=20_000, index_interval_bytes=1000)


def fill(directory: Path, batches: int, *, checkpoint_at: int = -1) -> int:
    """Leave a log behind without closing it; the recovery offset of its checkpoint."""
    log = open_log(directory, CONFIG, files=NotSyncing())
    recovery_offset = 0
    for number in range(batches):
        if number == checkpoint_at:
            log.flush()
            recovery_offset = log.checkpoint(NOW_MS)
        log.append(
            batch(b"%d" % number + b"x" * 400, producer_id=1, producer_epoch=0, base_sequence=number),
            now_ms=NOW_MS,
        )
    return recovery_offset


@pytest.mark.parametrize("batches", [50, 500])
def test_clean_stop_makes_the_next_start_read_only_the_tail(tmp_path: Path, batches: int) -> None:
    fill(tmp_path, batches)
    closed = open_log(tmp_path, CONFIG, files=NotSyncing()).close()
    files = FailingFileSystem()
    log = open_log(tmp_path, CONFIG, files=files, was_clean=True, recovery_offset=closed.recovery_offset)
    assert log.end_offset == batches
    assert files.bytes_read("*.log") <= 61 * 4
    assert files.bytes_read() < 1000
    assert values(read_all(log, batches - 1)) == [b"%d" % (batches - 1) + b"x" * 400]
    retried = batch(b"r", producer_id=1, producer_epoch=0, base_sequence=batches - 1)
    assert log.append(retried, now_ms=NOW_MS).duplicate


def test_start_after_a_crash_reads_nothing_before_the_recovery_point(tmp_path: Path) -> None:
    recovery_offset = fill(tmp_path, 500, checkpoint_at=450)
    assert recovery_offset == 450
    files = FailingFileSystem()
    log = open_log(tmp_path, CONFIG, files=files, recovery_offset=recovery_offset)
    assert log.end_offset == 500
    read_logs = [
        (int(Path(path).stem), position) for path, position, _ in files.reads if path.endswith(".log")
    ]
    bases = sorted(int(path.stem) for path in tmp_path.glob("*.log"))
    holding = max(base for base in bases if base <= 450)
    assert {base for base, _ in read_logs} == {base for base in bases if base >= holding}
    # Not before the last index entry in front of the recovery point: a few batches of some 480 bytes.
    assert min(position for base, position in read_logs if base == holding) > 480 * (450 - holding - 4)
    assert values(read_all(log))[-1] == b"499" + b"x" * 400
    assert (
        log.append(batch(b"r", producer_id=1, producer_epoch=0, base_sequence=497), now_ms=NOW_MS).base_offset
        == 497
    )


@pytest.mark.parametrize("recovery_offset", [0, 1, 99, 449, 450, 499, 500])
def test_any_recovery_point_gives_the_same_log(tmp_path: Path, recovery_offset: int) -> None:
    fill(tmp_path, 500, checkpoint_at=450)
    log = open_log(tmp_path, CONFIG, files=NotSyncing(), recovery_offset=recovery_offset)
    assert (log.end_offset, log.read_only_reason) == (500, None)
    assert [record.offset for record in read_all(log)] == list(range(500))
    for offset in (0, 123, 449, 450, 499):
        assert read_all(log, offset)[0].offset == offset


def test_log_that_is_shorter_than_its_recovery_point_says_so(tmp_path: Path) -> None:
    fill(tmp_path, 20)
    events: list[tuple[str, Mapping[str, object]]] = []
    log = open_log(tmp_path, CONFIG, files=NotSyncing(), recovery_offset=30, events=events)
    assert log.end_offset == 20
    (fields,) = [fields for name, fields in events if name == "log_shorter_than_recovery_point"]
    assert (fields["end_offset"], fields["recovery_offset"]) == (20, 30)


def test_damaged_index_is_rebuilt(tmp_path: Path) -> None:
    fill(tmp_path, 200)
    closed = open_log(tmp_path, CONFIG, files=NotSyncing()).close()
    for path in tmp_path.glob("*index"):
        path.write_bytes(b"\xff" * (path.stat().st_size // 24 * 24))
    for was_clean in (True, False):
        log = open_log(
            tmp_path, CONFIG, files=NotSyncing(), was_clean=was_clean, recovery_offset=closed.recovery_offset
        )
        for offset in range(0, 200, 7):
            assert read_all(log, offset)[0].offset == offset


def test_damaged_snapshot_is_passed_over_for_the_log_itself(tmp_path: Path) -> None:
    fill(tmp_path, 60, checkpoint_at=30)
    snapshots = list(tmp_path.glob("*.snapshot"))
    assert snapshots
    for path in snapshots:
        path.write_bytes(path.read_bytes()[:-1])
    events: list[tuple[str, Mapping[str, object]]] = []
    log = open_log(tmp_path, CONFIG, files=NotSyncing(), recovery_offset=30, events=events)
    assert "producer_snapshot_ignored" in [name for name, _ in events]
    assert log.append(batch(b"r", producer_id=1, producer_epoch=0, base_sequence=57), now_ms=NOW_MS).duplicate


def test_missing_segment_is_reported_and_the_rest_is_served(tmp_path: Path) -> None:
    fill(tmp_path, 200)
    gone = sorted(tmp_path.glob("*.log"))[1]
    gone.unlink()
    events: list[tuple[str, Mapping[str, object]]] = []
    log = open_log(tmp_path, CONFIG, files=NotSyncing(), events=events)
    (fields,) = [fields for name, fields in events if name == "segment_missing"]
    assert fields["expected_offset"] == int(gone.stem)
    found = [record.offset for record in read_all(log)]
    assert found == [*range(int(gone.stem)), *range(int(str(fields["found_offset"])), 200)]


def test_every_crash_begins_a_new_leader_epoch_and_a_clean_stop_does_not(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    log.append(batch(b"a"), now_ms=NOW_MS)
    crashed = open_log(tmp_path, CONFIG)
    crashed.append(batch(b"b", b"c"), now_ms=NOW_MS)
    again = open_log(tmp_path, CONFIG)
    again.append(batch(b"d"), now_ms=NOW_MS)
    assert (log.leader_epoch, crashed.leader_epoch, again.leader_epoch) == (0, 1, 2)
    assert [again.end_offset_for_epoch(epoch) for epoch in range(4)] == [(0, 1), (1, 3), (2, 4), (-1, -1)]
    closed = again.close()
    clean = open_log(tmp_path, CONFIG, was_clean=True, recovery_offset=closed.recovery_offset)
    assert clean.leader_epoch == 2
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 1\n2 3\n"


def test_checkpoint_keeps_two_snapshots(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(5):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
        log.flush()
        assert log.checkpoint(NOW_MS) == number + 1
    assert sorted(int(path.stem) for path in tmp_path.glob("*.snapshot")) == [4, 5]


def test_lost_epochs_are_found_in_the_batches(tmp_path: Path) -> None:
    for _ in range(3):
        open_log(tmp_path, CONFIG).append(batch(b"a"), now_ms=NOW_MS)
    closed = open_log(tmp_path, CONFIG).close()
    (tmp_path / "leader-epoch-checkpoint").write_text("rubbish")
    events: list[tuple[str, Mapping[str, object]]] = []
    log = open_log(tmp_path, CONFIG, was_clean=True, recovery_offset=closed.recovery_offset, events=events)
    assert [name for name, _ in events] == ["leader_epochs_ignored"]
    assert (log.end_offset, log.leader_epoch) == (3, 3)
    log.append(batch(b"b"), now_ms=NOW_MS)
    again = open_log(tmp_path, CONFIG)
    assert (again.end_offset, again.leader_epoch, again.read_only_reason) == (4, 4, None)
