"""Producer ids: each is allocated once, also after a crash."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headrace.broker.producer_ids import BLOCK_IDS, ProducerIds
from headrace.errors import HeadraceError
from headrace.log.errors import StorageFailed
from headrace.log.filesystem import DiskFileSystem
from headrace.testing.failing_filesystem import FailingFileSystem


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "metadata").mkdir()
    return str(tmp_path)


def test_no_id_is_allocated_twice_also_after_a_crash(folder: str) -> None:
    allocated = []
    for _ in range(3):
        ids = ProducerIds(DiskFileSystem(), folder)
        allocated += [ids.allocate() for _ in range(BLOCK_IDS + 1)]
    assert len({*allocated}) == len(allocated) == 3 * (BLOCK_IDS + 1)


def test_id_that_cannot_be_reserved_is_not_allocated(folder: str) -> None:
    files = FailingFileSystem()
    ids = ProducerIds(files, folder)
    files.fail("write_whole", "*next-producer-id", error_number=errno.ENOSPC)
    with pytest.raises(StorageFailed):
        ids.allocate()
    assert ids.allocate() == 0


def test_ids_of_the_logs_are_skipped_if_the_file_was_lost(folder: str) -> None:
    ids = ProducerIds(DiskFileSystem(), folder)
    ids.skip_past(5_000)
    assert ids.allocate() == 5_001
    ids.skip_past(4_000)
    assert ids.allocate() == 5_002
    assert ProducerIds(DiskFileSystem(), folder).allocate() > 5_002


def test_damaged_file_is_an_error_with_a_hint(folder: str) -> None:
    (Path(folder) / "metadata" / "next-producer-id").write_text("many")
    with pytest.raises(HeadraceError, match="next-producer-id is damaged") as error:
        ProducerIds(DiskFileSystem(), folder)
    assert error.value.hint
