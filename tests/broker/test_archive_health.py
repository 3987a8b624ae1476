"""The health of the archive: each use is counted, and a change is logged once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.broker.archive_health import ArchiveHealth, WatchedStore
from headrace.log.archive.store import FolderStore
from headrace.log.errors import ArchiveUnreachable, CorruptArchive
from headrace.testing.failing_archive import FailingArchive
from headrace.testing.manual_clock import ManualClock


def test_archive_is_unreachable_until_the_failed_operation_succeeds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    health = ArchiveHealth(clock)
    archive = FailingArchive(store=FolderStore(str(tmp_path)))
    store = WatchedStore(archive, health)
    store.put("a", b"content")
    assert (health.is_reachable, health.last_success_ms) == (True, clock.now_ms())
    archive.fail("read", times=2)
    for _ in range(2):
        with pytest.raises(ArchiveUnreachable):
            store.read("a")
    store.put("b", b"")
    assert (health.is_reachable, health.failures) == (False, 2), "reading still fails"
    assert store.read("a") == b"content"
    assert (health.is_reachable, health.failures) == (True, 2)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2, "the failure and its end, each once"


def test_damaged_object_is_counted_each_time_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    health = ArchiveHealth(ManualClock())
    for name in ("a", "a", "b"):
        health.corrupt(CorruptArchive(name=name, address="/archive", reason="a bit flipped"))
    assert health.corrupt_reads == 3
    assert [record.__dict__["object"] for record in caplog.records] == ["a", "b"]
    assert health.is_reachable, "a damaged object is no outage"
