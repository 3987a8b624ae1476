"""Files that an earlier process left: finished, removed, and the same after every interruption."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.recovery import leftovers
from headrace.log.segments import Segments
from headrace.testing.failing_filesystem import FailingFileSystem, PowerLost
from tests.log.batches import open_folder, write_segment


def log_with_a_finished_compaction(folder: Path) -> bytes:
    """Three segments, and a compacted one under `.swap` that replaces the first two; the bytes of that one."""
    segments = Segments(open_folder(folder, LogConfig(index_interval_bytes=100)))
    for base in (0, 10, 20):
        write_segment(segments, base, 10).write_indexes(is_final=True)
    (folder / "spare").mkdir()
    compacted = write_segment(Segments(open_folder(folder / "spare")), 0, 20)
    compacted.write_indexes(is_final=True)
    for suffix in (".log", ".index", ".timeindex"):
        Path(compacted.stem + suffix).rename(folder / f"{0:020d}{suffix}.swap")
    (folder / "spare").rmdir()
    return (folder / f"{0:020d}.log.swap").read_bytes()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_finished_compaction_replaces_the_segments_that_it_covers(tmp_path: Path) -> None:
    content = log_with_a_finished_compaction(tmp_path)
    events: list[tuple[str, Mapping[str, object]]] = []
    sizes = leftovers.tidy(
        FailingFileSystem(), str(tmp_path), lambda name, fields: events.append((name, fields))
    )
    assert names(tmp_path) == sorted(
        f"{base:020d}{suffix}" for base in (0, 20) for suffix in (".log", ".index", ".timeindex")
    )
    assert (tmp_path / f"{0:020d}.log").read_bytes() == content
    assert sizes == {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert [name for name, _ in events] == ["compaction_swap_finished"]


def test_repair_interrupted_anywhere_has_the_same_result(tmp_path: Path) -> None:
    runs = 0
    while True:
        folder = tmp_path / str(runs)
        folder.mkdir()
        content = log_with_a_finished_compaction(folder)
        files = FailingFileSystem()
        files.lose_power_at(runs)
        try:
            leftovers.tidy(files, str(folder), lambda name, fields: None)
        except PowerLost:
            runs += 1
        else:
            break
        leftovers.tidy(FailingFileSystem(), str(folder), lambda name, fields: None)
        assert [name for name in names(folder) if name.endswith(".log")] == [
            f"{0:020d}.log",
            f"{20:020d}.log",
        ]
        assert (folder / f"{0:020d}.log").read_bytes() == content
    assert runs > 5


@pytest.mark.parametrize("suffix", [".cleaned", ".deleted", ".tmp", ".repaired", ".swap"])
def test_unfinished_files_are_removed(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"{0:020d}.index{suffix}").write_bytes(b"x")
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"y")
    sizes = leftovers.tidy(FailingFileSystem(), str(tmp_path), lambda name, fields: None)
    assert names(tmp_path) == ["leader-epoch-checkpoint"]
    assert sizes == {"leader-epoch-checkpoint": 1}


def test_name_of_a_deleted_partition_is_free_immediately(tmp_path: Path) -> None:
    directory = tmp_path / ("t" * 249 + "-0")
    directory.mkdir()
    (directory / "file").write_bytes(b"x")
    files = FailingFileSystem()
    aside = leftovers.rename_for_deletion(files, str(directory))
    assert not directory.exists()
    assert aside.endswith("-delete")
    leftovers.remove_directory_tree(files, aside)
    assert list(tmp_path.iterdir()) == []
