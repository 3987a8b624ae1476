"""Deleted topics whose archive is still to be deleted."""

from __future__ import annotations

import uuid
from pathlib import Path

from headrace.broker.archive_deletions import ArchiveDeletions
from headrace.log.filesystem import DiskFileSystem
from headrace.testing.failing_filesystem import FailingFileSystem


def test_deletion_is_pending_until_it_is_done_also_after_a_restart(tmp_path: Path) -> None:
    first, second = uuid.UUID(int=1), uuid.UUID(int=2)
    deletions = ArchiveDeletions(DiskFileSystem(), str(tmp_path))
    assert deletions.pending() == []
    deletions.note(first, "a")
    deletions.note(second, "b")
    deletions.done(str(first))
    assert ArchiveDeletions(DiskFileSystem(), str(tmp_path)).pending() == [str(second)]


def test_file_that_a_crash_left_unfinished_is_no_deletion(tmp_path: Path) -> None:
    files = FailingFileSystem()
    deletions = ArchiveDeletions(files, str(tmp_path))
    deletions.note(uuid.UUID(int=1), "a")
    (tmp_path / "metadata" / "archive-deletions" / f"{uuid.UUID(int=2)}.tmp").touch()
    assert deletions.pending() == [str(uuid.UUID(int=1))]
