"""Checking all segments of a log at a start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.log.checkpoints import CleanStop
from headrace.log.config import LogConfig
from headrace.log.recovery.checking import check_first, check_from, is_unchanged, load_tail
from headrace.log.recovery.segment_checker import Recovery
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from tests.log.batches import open_folder, write_segment

BASES = (0, 10, 20)


class Lab:
    def __init__(self, folder: Path) -> None:
        self.segments = Segments(open_folder(folder, LogConfig(index_interval_bytes=200)))
        for base in BASES:
            write_segment(self.segments, base, 10).write_indexes(is_final=True)
        self.folder = folder
        self.events: list[tuple[str, Mapping[str, object]]] = []
        self.recovery = Recovery(
            on_event=lambda name, fields: self.events.append((name, fields)), epochs=[], covered_offset=30
        )
        self.clean_stop = CleanStop(
            start_offset=0,
            end_offset=30,
            segment_bytes={segment.base_offset: segment.size_bytes for segment in self.found()},
        )

    def found(self) -> list[Segment]:
        bases = [base for base in BASES if self.path(base).exists()]
        return [
            self.segments.make(base, size_bytes=self.path(base).stat().st_size, next_offset=base + 10)
            for base in bases
        ]

    def path(self, base: int, suffix: str = ".log") -> Path:
        return self.folder / f"{base:020d}{suffix}"

    @property
    def damaged(self) -> list[tuple[int, int]]:
        return [(damage.first_offset, damage.next_offset) for damage in self.recovery.damages]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_tail_is_found_by_the_index_and_the_last_headers(lab: Lab) -> None:
    active = lab.found()[-1]
    active.extent = (20, active.size_bytes)
    assert load_tail(active)
    assert active.next_offset == 30


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_tail_without_an_index_has_to_be_checked(lab: Lab, suffix: str) -> None:
    lab.path(20, suffix).unlink()
    assert not load_tail(lab.found()[-1])


def test_files_are_unchanged_after_a_clean_stop(lab: Lab) -> None:
    assert is_unchanged(lab.recovery, lab.found(), lab.clean_stop)


@pytest.mark.parametrize(("base", "changed"), [(0, {0}), (10, {0}), (20, {10})])
def test_missing_or_shorter_segment_is_noticed_after_a_clean_stop(
    lab: Lab, base: int, changed: set[int]
) -> None:
    os.truncate(lab.path(base), 70)
    assert not is_unchanged(lab.recovery, lab.found(), lab.clean_stop)
    assert lab.recovery.changed == {base}
    lab.path(base).unlink()
    found = lab.found()
    assert not is_unchanged(lab.recovery, found, lab.clean_stop)
    assert lab.recovery.changed == ({10} if base == 0 else changed)


def test_closed_segment_that_lost_its_end_is_damaged_though_the_recovery_point_is_after_it(lab: Lab) -> None:
    whole = lab.path(0).stat().st_size
    os.truncate(lab.path(0), whole // 2)
    check_from(lab.recovery, lab.found(), 25)
    assert len(lab.damaged) == 1
    assert lab.damaged[0][1] == 10


def test_only_the_tail_after_the_recovery_point_is_truncated(lab: Lab) -> None:
    with lab.path(20).open("ab") as file:
        file.write(b"torn")
    kept = check_from(lab.recovery, lab.found(), 25)
    assert [segment.base_offset for segment in kept] == list(BASES)
    assert (kept[-1].next_offset, lab.recovery.bytes_truncated, lab.damaged) == (30, 4, [])


def test_empty_segment_after_a_truncated_one_is_removed(lab: Lab) -> None:
    lab.recovery.covered_offset = 0
    os.truncate(lab.path(20), 0)
    size = lab.path(10).stat().st_size
    os.truncate(lab.path(10), size - 3)
    kept = check_from(lab.recovery, lab.found(), 0)
    assert [segment.base_offset for segment in kept] == [0, 10]
    assert kept[-1].next_offset == 19
    assert not lab.path(20).exists()


def test_missing_first_segment_is_damage_only_after_a_clean_stop(lab: Lab) -> None:
    lab.path(0).unlink()
    found = lab.found()
    check_first(lab.recovery, found, 0, None)
    assert lab.damaged == []
    assert [name for name, _ in lab.events] == ["log_begins_late"]
    check_first(lab.recovery, found, 0, lab.clean_stop)
    assert lab.damaged == [(0, 10)]
    assert found[0].damages[0].path == str(lab.path(0))
