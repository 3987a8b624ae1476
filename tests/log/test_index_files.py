"""Index files on disk: written in part, read back, and never believed when they cannot be right."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.aborted_index import AbortedIndex, AbortedTransaction
from headrace.log.errors import CorruptSegment
from headrace.log.filesystem import DiskFileSystem
from headrace.log.index import OffsetIndex, TimeIndex
from headrace.log.index_files import IndexFiles, LastEntries
from tests.log.batches import NotSyncing

FILES = DiskFileSystem()


def index_files(folder: Path, extension: str = "") -> IndexFiles:
    return IndexFiles(NotSyncing(), str(folder / "0"), extension)


@given(st.lists(st.integers(1, 50), max_size=12), st.integers(0, 12))
def test_indexes_survive_being_written_in_two_steps(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], first: int
) -> None:
    on_disk = index_files(tmp_path_factory.mktemp("index"))
    offsets, times = OffsetIndex(100), TimeIndex(100)
    for number, step in enumerate(steps):
        if number == first:
            on_disk.write(offsets, times)
        last = 100 + sum(steps[:number]) + step
        offsets.append(last, number * 10)
        times.append_if_later(number * 5, last)
    on_disk.write(offsets, times)
    read = on_disk.read(100, 1000)
    assert read is not None
    assert (read[0].relative_offsets, read[0].positions) == (offsets.relative_offsets, offsets.positions)
    assert read[1].timestamps_ms == times.timestamps_ms
    if steps:
        assert on_disk.last_entries(100, 1000) == LastEntries(
            position=(len(steps) - 1) * 10,
            last_offset=100 + sum(steps),
            max_timestamp_ms=(len(steps) - 1) * 5,
            max_timestamp_offset=100 + sum(steps),
        )


def test_entries_that_a_crash_left_are_truncated(tmp_path: Path) -> None:
    on_disk = index_files(tmp_path)
    on_disk.write(OffsetIndex(0), TimeIndex(0))
    (tmp_path / "0.index").write_bytes(b"left over")
    on_disk.write(OffsetIndex(0), TimeIndex(0))
    assert (tmp_path / "0.index").read_bytes() == b""


def test_missing_files_are_empty_indexes_and_have_no_last_entries(tmp_path: Path) -> None:
    on_disk = index_files(tmp_path)
    read = on_disk.read(0, 1000)
    assert read is not None
    assert (len(read[0]), len(read[1])) == (0, 0)
    assert on_disk.last_entries(0, 1000) is None
    assert on_disk.open() == ()
    assert on_disk.read_aborted().entries == []


def test_index_that_points_past_the_log_is_rejected(tmp_path: Path) -> None:
    on_disk = index_files(tmp_path)
    offsets = OffsetIndex(0)
    offsets.append(5, 500)
    on_disk.write(offsets, TimeIndex(0))
    assert on_disk.read(0, 501) is not None
    assert on_disk.read(0, 500) is None
    assert on_disk.last_entries(0, 499) is None


def test_extension_follows_the_suffix(tmp_path: Path) -> None:
    on_disk = index_files(tmp_path, ".swap")
    on_disk.write(OffsetIndex(0), TimeIndex(0))
    aborted = AbortedIndex()
    aborted.append(AbortedTransaction(1, 0, 5, 6))
    on_disk.write_aborted(aborted)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0.index.swap",
        "0.timeindex.swap",
        "0.txnindex.swap",
    ]


def test_aborted_transactions_are_written_when_they_changed(tmp_path: Path) -> None:
    on_disk = index_files(tmp_path)
    on_disk.write_aborted(AbortedIndex())
    assert list(tmp_path.iterdir()) == []
    aborted = AbortedIndex()
    aborted.append(AbortedTransaction(1, 0, 5, 6))
    on_disk.write_aborted(aborted)
    assert aborted.is_written
    assert on_disk.read_aborted().entries == aborted.entries


def test_damaged_list_of_aborted_transactions_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "0.txnindex").write_bytes(b"no list")
    with pytest.raises(CorruptSegment, match="txnindex"):
        index_files(tmp_path).read_aborted()
