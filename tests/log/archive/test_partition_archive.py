"""The archived segments of one partition, and their list on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log.archive.archived_segments import LIST_NAME
from headrace.log.errors import LogError
from headrace.records.control import MarkerType
from tests.log.archive.archive_lab import CONFIG, ArchiveLab, local_only_newest, marker, transactional
from tests.log.batches import NOW_MS


def test_damaged_list_stops_the_start_and_not_the_archive(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    lab.archived_to_the_end()
    path = lab.directory / LIST_NAME
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(LogError, match=LIST_NAME):
        lab.open(CONFIG)
    assert lab.objects()


def test_aborted_transactions_are_read_without_the_archive(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path, store=None)
    lab.append(4)
    lab.log.append(transactional(0), now_ms=NOW_MS)
    lab.append(8)
    lab.log.append(marker(MarkerType.ABORT), now_ms=NOW_MS, from_client=False)
    log = lab.archived_to_the_end()
    assert log.reader.aborted_transactions(0, 30) == [(7, 4)]
    assert log.reader.aborted_transactions(0, 4) == []
    assert log.reader.aborted_transactions(20, 40) == []
    reopened = lab.open(local_only_newest(CONFIG))
    lab.root.rename(tmp_path / "elsewhere")
    assert reopened.reader.aborted_transactions(3, 30) == [(7, 4)]
