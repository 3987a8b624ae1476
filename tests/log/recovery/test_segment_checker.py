"""Checking one segment: torn tails, damage and valid batches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.checkpoints import EpochStart
from headrace.log.config import LogConfig
from headrace.log.recovery.segment_checker import Recovery, SegmentChecker, is_lost
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from tests.log.batches import NotSyncing, open_folder, write_segment

COUNT = 20


class Lab:
    """A segment of COUNT batches, damaged by the test and then checked."""

    def __init__(self, folder: Path) -> None:
        self.segments = Segments(open_folder(folder, LogConfig(index_interval_bytes=200), files=NotSyncing()))
        written = write_segment(self.segments, 0, COUNT)
        self.positions = [position for position, _ in written.walk(0)]
        self.path = Path(written.path)
        self.events: list[tuple[str, Mapping[str, object]]] = []
        self.recovery = Recovery(
            on_event=lambda name, fields: self.events.append((name, fields)),
            epochs=[EpochStart(epoch=0, start_offset=0)],
        )

    def change(self, position: int, content: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(position)
            file.write(content)

    def cut(self, size_bytes: int) -> None:
        self.path.write_bytes(self.path.read_bytes()[:size_bytes])

    def check(self, *, next_base_offset: int | None = None, from_offset: int = 0) -> tuple[int, Segment]:
        segment = self.segments.make(0, size_bytes=self.path.stat().st_size, next_offset=0)
        checker = SegmentChecker(
            self.recovery, segment, next_base_offset=next_base_offset, is_last=next_base_offset is None
        )
        return checker.check(from_offset), segment

    @property
    def damaged(self) -> list[tuple[int, int]]:
        return [(damage.first_offset, damage.next_offset) for damage in self.recovery.damages]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_valid_segment_is_read_to_its_end_and_indexed(lab: Lab) -> None:
    end_offset, segment = lab.check()
    assert (end_offset, segment.next_offset, segment.size_bytes) == (COUNT, COUNT, lab.path.stat().st_size)
    assert (lab.damaged, lab.recovery.bytes_truncated, lab.recovery.last_epoch) == ([], 0, 0)
    assert len(segment.offset_index()) > 2


@given(st.data())
def test_torn_tail_is_truncated_at_the_last_whole_batch(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lab = Lab(tmp_path_factory.mktemp("segment"))
    size = data.draw(st.integers(0, lab.path.stat().st_size - 1))
    lab.cut(size)
    whole = sum(1 for position in lab.positions[1:] if position <= size)
    end_offset, segment = lab.check()
    assert end_offset == whole
    assert lab.path.stat().st_size == segment.size_bytes == [*lab.positions, 0][whole]
    assert lab.damaged == []


def test_torn_tail_that_was_known_to_be_on_disk_is_damage_and_is_kept(lab: Lab) -> None:
    lab.cut(lab.positions[15] + 10)
    lab.recovery.covered_offset = COUNT
    size = lab.path.stat().st_size
    end_offset, _ = lab.check()
    assert (end_offset, lab.damaged, lab.path.stat().st_size) == (COUNT, [(15, COUNT)], size)


@pytest.mark.parametrize("number", [0, 7, COUNT - 2])
def test_damage_ends_at_the_next_valid_batch(lab: Lab, number: int) -> None:
    lab.change(lab.positions[number] + 40, b"\xff\xff\xff")
    end_offset, segment = lab.check()
    assert (end_offset, lab.damaged) == (COUNT, [(number, number + 1)])
    (damage,) = segment.damages
    assert (damage.position, damage.end_position) == (lab.positions[number], lab.positions[number + 1])
    assert [name for name, _ in lab.events] == ["segment_damaged"]
    assert f"log repair {lab.path.parent}" in str(lab.events[0][1]["hint"])


def test_batch_of_another_epoch_is_damage(lab: Lab) -> None:
    lab.change(lab.positions[4] + 12, (9).to_bytes(4, "big"))
    lab.check()
    assert lab.damaged == [(4, 5)]


def test_flipped_bit_in_an_offset_is_no_gap_of_compaction(lab: Lab) -> None:
    lab.change(lab.positions[4], (5000).to_bytes(8, "big"))
    lab.check(next_base_offset=COUNT)
    assert lab.damaged == [(4, 5)]


def test_gap_at_the_end_is_damage_unless_compaction_or_a_repair_explains_it(lab: Lab) -> None:
    lab.check(next_base_offset=COUNT + 5)
    assert lab.damaged == [(COUNT, COUNT + 5)]
    for explained in ({"cleaned_offset": COUNT + 5}, {"lost": [(COUNT, COUNT + 5)]}):
        other = Recovery(on_event=lambda name, fields: None, epochs=[], **explained)
        lab.recovery = other
        end_offset, _ = lab.check(next_base_offset=COUNT + 5)
        assert (end_offset, other.damages) == (COUNT + 5, [])


def test_dry_run_changes_nothing(lab: Lab) -> None:
    lab.change(lab.positions[4] + 40, b"\xff\xff\xff")
    before = {path.name: path.read_bytes() for path in lab.path.parent.iterdir()}
    lab.recovery.is_dry_run = True
    lab.check()
    assert {path.name: path.read_bytes() for path in lab.path.parent.iterdir()} == before


@pytest.mark.parametrize("from_offset", [1, 10, COUNT])
def test_check_from_an_offset_reads_nothing_before_it(lab: Lab, from_offset: int) -> None:
    _, segment = lab.check()
    segment.write_indexes()
    end_offset, segment = lab.check(from_offset=from_offset)
    assert (end_offset, segment.size_bytes) == (COUNT, lab.path.stat().st_size)
    assert lab.damaged == []


def test_offsets_are_lost_only_within_one_range() -> None:
    lost = [(0, 5), (10, 20)]
    assert is_lost(lost, 10, 20)
    assert is_lost(lost, 12, 15)
    assert not is_lost(lost, 3, 12)
    assert not is_lost([], 3, 3)
