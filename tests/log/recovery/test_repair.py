"""Repair keeps every valid batch, reports lost offsets, and keeps the damaged file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import LogError, LogReadOnly
from headrace.log.filesystem import DiskFileSystem
from headrace.log.recovery.repair import plan_repair, repair
from headrace.records.batch import iterate_headers
from headrace.testing.failing_filesystem import FailingFileSystem, PowerLost
from tests.log.batches import NOW_MS, NotSyncing, batch, open_log, read_all, values

CONFIG = LogConfig(index_interval_bytes=100, segment_bytes_max=500)
BATCHES = 16
FILES = DiskFileSystem()


def written_log(directory: Path) -> list[Path]:
    log = open_log(directory, CONFIG, files=NotSyncing())
    for number in range(BATCHES):
        log.append(batch(b"%d" % number, b"second"), now_ms=NOW_MS)
    log.close()
    return sorted(directory.glob("*.log"))


def damage(path: Path, position: int, bytes_count: int = 1) -> None:
    content = bytearray(path.read_bytes())
    for at in range(position, position + bytes_count):
        content[at] ^= 0xFF
    path.write_bytes(content)


def test_valid_log_needs_no_repair(tmp_path: Path) -> None:
    written_log(tmp_path)
    assert plan_repair(tmp_path, files=FILES).segments == ()


def test_folder_without_segments_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(LogError):
        plan_repair(tmp_path, files=FILES)


@pytest.mark.parametrize("segment", [0, 1, -1])
def test_batches_before_and_after_the_damage_are_kept(tmp_path: Path, segment: int) -> None:
    path = written_log(tmp_path)[segment]
    original = path.read_bytes()
    position, header = list(iterate_headers(original))[1]
    damage(path, position + 65)
    damaged = path.read_bytes()
    log = open_log(tmp_path, CONFIG)
    with pytest.raises(LogReadOnly):
        log.append(batch(b"no"), now_ms=NOW_MS)
    plan = plan_repair(tmp_path, files=FILES)
    (found,) = plan.segments
    assert (found.path, found.lost_offsets, found.lost_bytes) == (str(path), 2, header.size_bytes)
    assert (found.lost[0].first_offset, found.lost[0].position) == (header.base_offset, position)
    repair(plan, files=FILES)
    assert path.with_suffix(".log.damaged").read_bytes() == damaged
    assert plan_repair(tmp_path, files=FILES).segments == ()
    repaired = open_log(tmp_path, CONFIG)
    assert repaired.read_only_reason is None
    expected = [
        offset for offset in range(2 * BATCHES) if offset not in (header.base_offset, header.last_offset)
    ]
    assert [record.offset for record in read_all(repaired)] == expected
    assert repaired.append(batch(b"next"), now_ms=NOW_MS).base_offset == 2 * BATCHES


@pytest.mark.parametrize("byte", [0, 7, 12, 15, 16])
def test_batch_with_only_a_wrong_offset_epoch_or_version_is_restored_without_loss(
    tmp_path: Path, byte: int
) -> None:
    path = written_log(tmp_path)[1]
    original = path.read_bytes()
    position, _ = list(iterate_headers(original))[2]
    damage(path, position + byte)
    plan = plan_repair(tmp_path, files=FILES)
    assert (plan.segments[0].lost, len(plan.segments[0].restored)) == ((), 1)
    repair(plan, files=FILES)
    assert path.read_bytes() == original
    assert len(read_all(open_log(tmp_path, CONFIG))) == 2 * BATCHES


@pytest.mark.parametrize("byte", [7, 15])
def test_wrong_offsets_or_epochs_of_successive_batches_are_restored_without_loss(
    tmp_path: Path, byte: int
) -> None:
    path = written_log(tmp_path)[1]
    original = path.read_bytes()
    first, second, *_ = list(iterate_headers(original))
    for position, _ in (first, second):
        damage(path, position + byte)
    plan = plan_repair(tmp_path, files=FILES)
    assert plan.segments[0].lost == ()
    repair(plan, files=FILES)
    assert path.read_bytes() == original


def test_damage_at_several_positions_is_repaired_in_one_run(tmp_path: Path) -> None:
    paths = written_log(tmp_path)
    for path, which in ((paths[0], 0), (paths[0], 3), (paths[2], 1)):
        position, _ = list(iterate_headers((path).read_bytes()))[which]
        damage(path, position + 66, 3)
    repair(plan_repair(tmp_path, files=FILES), files=FILES)
    log = open_log(tmp_path, CONFIG)
    assert (log.read_only_reason, len(read_all(log))) == (None, 2 * (BATCHES - 3))


def test_interrupted_repair_can_be_run_again(tmp_path: Path) -> None:
    original = tmp_path / "original"
    path = written_log(original)[1]
    position, header = list(iterate_headers(path.read_bytes()))[1]
    damage(path, position + 65)
    step = 0
    finished = False
    while not finished:
        directory = tmp_path / "copy"
        shutil.copytree(original, directory)
        files = FailingFileSystem(files=NotSyncing())
        files.lose_power_at(step)
        try:
            repair(plan_repair(directory, files=files), files=files)
            finished = True
        except PowerLost:
            step += 1
        again = plan_repair(directory, files=NotSyncing())
        repair(again, files=NotSyncing())
        log = open_log(directory, CONFIG, files=NotSyncing())
        assert (log.read_only_reason, len(read_all(log))) == (None, 2 * (BATCHES - 1)), step
        assert b"%d" % (header.base_offset // 2) not in values(read_all(log))
        shutil.rmtree(directory)
    assert step > 5
