"""Archived segments as files: every chunk is checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log.errors import CorruptArchive
from tests.log.archive.archive_lab import ArchiveLab, numbers
from tests.log.batches import read_all, values


@pytest.mark.parametrize("suffix", [".log", ".manifest"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_damage_in_the_archive_is_an_error_and_reported(tmp_path: Path, suffix: str, damage: str) -> None:
    lab = ArchiveLab(tmp_path)
    log = lab.archived_to_the_end()
    path = lab.object(log.archive.entries[1], suffix)
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-1] + bytes((content[-1] ^ 1,)) if damage == "flipped" else content[:-1])
    with pytest.raises(CorruptArchive, match=path.name) as error:
        read_all(log)
    assert "DeleteRecords" in error.value.hint
    assert [found.name.rpartition("/")[2] for found in lab.corrupt] == [path.name]
    behind = log.archive.entries[2].base_offset
    assert values(read_all(log, behind)) == numbers(behind, 30)
    path.write_bytes(content)
    assert values(read_all(log)) == numbers(0, 30)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_damaged_index_in_the_archive_is_done_without(tmp_path: Path, suffix: str) -> None:
    lab = ArchiveLab(tmp_path)
    log = lab.archived_to_the_end()
    path = lab.object(log.archive.entries[1], suffix)
    path.write_bytes(bytes(len(path.read_bytes())))
    assert values(read_all(log)) == numbers(0, 30)
    assert [found.name.rpartition("/")[2] for found in lab.corrupt] == [path.name]


def test_second_read_is_served_by_the_cache(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    log = lab.archived_to_the_end()
    read_all(log)
    misses = lab.cache.misses
    assert misses > 0
    read_all(log)
    assert lab.cache.misses == misses
