"""Copying a segment to the archive: it counts only when it was read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log.archive.copying import CopyDiffers
from headrace.testing.failing_archive import FailingArchive
from tests.log.archive.archive_lab import ArchiveLab


def test_closed_segments_are_copied_with_all_that_belongs_to_them(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    lab.append(30)
    copied = lab.copy()
    assert copied == len(lab.log.segments) - 1 == len(lab.log.archive.entries)
    for entry in lab.log.archive.entries:
        for suffix in (".log", ".index", ".timeindex", ".snapshot", ".manifest"):
            assert lab.object(entry, suffix).exists(), suffix
        local = lab.directory / f"{entry.base_offset:020d}.log"
        assert lab.object(entry, ".log").read_bytes() == local.read_bytes()
    assert lab.copy() == 0


def test_copy_that_differs_from_its_segment_is_rejected(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    for pattern in ("*.log", "*.timeindex", "*.manifest"):
        lab.store = FailingArchive(store=lab.shared.store, flipped=[pattern])
        lab.append(30)
        with pytest.raises(CopyDiffers):
            lab.copy()
        assert lab.log.archive.entries == ()
        if pattern != "*.manifest":
            assert not [name for name in lab.objects() if name.endswith(".manifest")]
