"""Opening a log reads no more than it must, and rebuilds what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.log.checkpoints import CleanStop
from headrace.log.config import LogConfig
from headrace.log.errors import CorruptSegment, LogReadOnly
from headrace.log.recovery.repair import plan_repair, repair
from headrace.records.batch import iterate_headers
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.log.batches import NOW_MS, NotSyncing, batch, open_log, read_all, values

CONFIG = LogConfig(segment_bytes_max=20_000, index_interval_bytes=1000)


def fill(directory: Path, batches: int, *, checkpoint_at: int = -1) -> int:
    """A log that is not closed; the recovery offset of its checkpoint."""
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
def test_start_after_a_clean_stop_reads_only_the_tail(tmp_path: Path, batches: int) -> None:
    fill(tmp_path, batches)
    closed = open_log(tmp_path, CONFIG, files=NotSyncing()).close()
    files = FailingFileSystem()
    log = open_log(tmp_path, CONFIG, files=files, was_clean=True, recovery_offset=closed.end_offset)
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
    # Of the segments before it only the last headers, to see that the next one joins.
    sizes = {base: (tmp_path / f"{base:020d}.log").stat().st_size for base in bases}
    assert all(position > sizes[base] - 3000 for base, position in read_logs if base < holding)
    # Not before the last index entry in front of the recovery point: a few batches of some 480 bytes.
    assert min(position for base, position in read_logs if base == holding) > 480 * (450 - holding - 4)
    assert values(read_all(log))[-1] == b"499" + b"x" * 400
    assert (
        log.append(batch(b"r", producer_id=1, producer_epoch=0, base_sequence=497), now_ms=NOW_MS).base_offset
        == 497
    )


@pytest.mark.parametrize("recovery_offset", [0, 1, 99, 449, 450, 499, 500])
def test_any_recovery_point_recovers_the_same_log(tmp_path: Path, recovery_offset: int) -> None:
    fill(tmp_path, 500, checkpoint_at=450)
    log = open_log(tmp_path, CONFIG, files=NotSyncing(), recovery_offset=recovery_offset)
    assert (log.end_offset, log.read_only_reason) == (500, None)
    assert [record.offset for record in read_all(log)] == list(range(500))
    for offset in (0, 123, 449, 450, 499):
        assert read_all(log, offset)[0].offset == offset


BATCHES = 100


def written(directory: Path) -> CleanStop:
    """A log of several segments, all of it on disk."""
    fill(directory, BATCHES)
    log = open_log(directory, CONFIG, files=NotSyncing())
    closed = log.close()
    assert (closed.end_offset, len(closed.segment_bytes)) == (BATCHES, 3)
    return closed


def check_damage(directory: Path, closed: CleanStop, *, was_clean: bool, lost: range) -> None:
    """The damage is found at every start, offsets are never used again, and a repair ends it."""
    events: list[tuple[str, Mapping[str, object]]] = []
    log = open_log(
        directory,
        CONFIG,
        files=NotSyncing(),
        was_clean=was_clean,
        clean_stop=closed if was_clean else None,
        recovery_offset=closed.end_offset,
        start_offset=0,
        events=events,
    )
    for _ in range(3):
        assert [fields for name, fields in events if name == "segment_damaged"]
        assert "headrace log repair" in str(events)
        with pytest.raises(LogReadOnly, match="repair"):
            log.append(batch(b"no"), now_ms=NOW_MS)
        assert log.end_offset == BATCHES
        for offset in range(BATCHES):
            if offset in lost:
                with pytest.raises(CorruptSegment):
                    log.reader.read(offset, bytes_max=1, end_offset=BATCHES, at_least_one=True)
            else:
                found = bytes(log.reader.read(offset, bytes_max=1, end_offset=BATCHES, at_least_one=True))
                assert [header.base_offset for _, header in iterate_headers(found)] == [offset]
        recovery_offset = log.checkpoint(NOW_MS)
        events.clear()
        log = open_log(directory, CONFIG, files=NotSyncing(), recovery_offset=recovery_offset, events=events)
    (directory.parent / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {recovery_offset}\n")
    repair(plan_repair(directory, files=NotSyncing()), files=NotSyncing())
    for _ in range(2):
        repaired = open_log(directory, CONFIG, files=NotSyncing(), recovery_offset=recovery_offset)
        assert repaired.read_only_reason is None
        assert [record.offset for record in read_all(repaired)] == [
            offset for offset in range(repaired.end_offset) if offset not in lost
        ]
    assert repaired.append(batch(b"next"), now_ms=NOW_MS).base_offset == BATCHES
    assert plan_repair(directory, files=NotSyncing()).segments == ()


@pytest.mark.parametrize("was_clean", [True, False], ids=["clean-stop", "crash"])
@pytest.mark.parametrize(
    ("fault", "segment"),
    [
        *((fault, segment) for fault in ("emptied", "truncated") for segment in (0, 1, 2)),
        # The first one may have been removed by retention; see below.
        *(("deleted", segment) for segment in (1, 2)),
        # A start does not read the others. A read finds the damage.
        ("garbage", 2),
    ],
)
def test_invalid_bytes_below_the_recovery_point_are_damage_and_no_torn_tail(
    tmp_path: Path, fault: str, segment: int, was_clean: bool
) -> None:
    directory = tmp_path / "t-0"
    closed = written(directory)
    bases = [*closed.segment_bytes, BATCHES]
    path = directory / f"{bases[segment]:020d}.log"
    content = path.read_bytes()
    lost = range(bases[segment], bases[segment + 1])
    if fault == "emptied":
        path.write_bytes(b"")
    elif fault == "deleted":
        path.unlink()
    elif fault == "truncated":
        path.write_bytes(content[:-10])
        lost = range(bases[segment + 1] - 1, bases[segment + 1])
    else:
        path.write_bytes(b"\xa5" * len(content))
    check_damage(directory, closed, was_clean=was_clean, lost=lost)


def test_log_without_segments_is_damaged(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    closed = written(directory)
    for path in directory.iterdir():
        path.unlink()
    check_damage(directory, closed, was_clean=True, lost=range(BATCHES))


def test_log_whose_records_were_all_deleted_may_have_no_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG, recovery_offset=30, start_offset=30)
    assert (log.read_only_reason, log.append(batch(b"next"), now_ms=NOW_MS).base_offset) == (None, 30)


def test_tail_after_the_recovery_point_is_torn(tmp_path: Path) -> None:
    recovery_offset = fill(tmp_path, 30, checkpoint_at=20)
    path = max(tmp_path.glob("*.log"))
    path.write_bytes(path.read_bytes()[:-5])
    log = open_log(tmp_path, CONFIG, files=NotSyncing(), recovery_offset=recovery_offset)
    assert (log.end_offset, log.read_only_reason) == (29, None)


def test_missing_first_segment_after_a_clean_stop_is_damage(tmp_path: Path) -> None:
    closed = written(tmp_path)
    min(tmp_path.glob("*.log")).unlink()
    log = open_log(
        tmp_path,
        CONFIG,
        files=NotSyncing(),
        was_clean=True,
        clean_stop=closed,
        recovery_offset=BATCHES,
        start_offset=0,
    )
    assert (log.start_offset, log.end_offset, log.read_only_reason is None) == (0, BATCHES, False)
    with pytest.raises(CorruptSegment):
        log.reader.read(0, bytes_max=1, end_offset=BATCHES, at_least_one=True)
    second = sorted(closed.segment_bytes)[1]
    assert [record.offset for record in read_all(log, second)] == [*range(second, BATCHES)]


def test_start_that_retention_moved_before_a_crash_is_no_damage(tmp_path: Path) -> None:
    fill(tmp_path, BATCHES)
    min(tmp_path.glob("*.log")).unlink()
    events: list[tuple[str, Mapping[str, object]]] = []
    log = open_log(
        tmp_path, CONFIG, files=NotSyncing(), recovery_offset=BATCHES, start_offset=0, events=events
    )
    assert (log.read_only_reason, log.start_offset > 0) == (None, True)
    assert "log_begins_late" in [name for name, _ in events]


def test_damaged_index_is_rebuilt(tmp_path: Path) -> None:
    fill(tmp_path, 200)
    closed = open_log(tmp_path, CONFIG, files=NotSyncing()).close()
    for path in tmp_path.glob("*index"):
        path.write_bytes(b"\xff" * (path.stat().st_size // 24 * 24))
    for was_clean in (True, False):
        log = open_log(
            tmp_path, CONFIG, files=NotSyncing(), was_clean=was_clean, recovery_offset=closed.end_offset
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
