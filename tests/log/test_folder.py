"""The folder of a partition: whether it accepts writes, and which events it reports."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.log.damage import missing_offsets
from headrace.log.folder import log_event
from tests.log.batches import open_folder


def test_first_reason_to_be_read_only_stays_and_is_reported_once(tmp_path: Path) -> None:
    events: list[tuple[str, Mapping[str, object]]] = []
    folder = open_folder(tmp_path, events=events)
    folder.become_read_only("the disk failed")
    folder.become_read_only("something later")
    assert folder.read_only_reason == "the disk failed"
    assert events == [("log_read_only", {"path": str(tmp_path), "reason": "the disk failed"})]


def test_read_only_error_suggests_a_repair_only_for_damage(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    folder.become_read_only("the disk failed")
    failed = folder.read_only_error()
    assert "the disk failed" in failed.message
    assert "repair" not in str(failed.hint)
    folder.damages = (missing_offsets("x", 0, 0, 1),)
    assert f"headrace log repair {tmp_path}" in str(folder.read_only_error().hint)


def test_failed_write_is_an_event_and_an_error_to_raise(tmp_path: Path) -> None:
    events: list[tuple[str, Mapping[str, object]]] = []
    error = open_folder(tmp_path, events=events).storage_failed("no space")
    assert error.message == "no space"
    assert events == [("storage_failed", {"path": str(tmp_path), "reason": "no space"})]


def test_open_folder_can_be_synced_and_closes_with_its_last_reference(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    opened = folder.open()
    folder.files.sync_names(opened.fd)
    fd = opened.fd
    del opened
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_events_without_a_sink_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        log_event("segment_damaged", {"position": 7})
    (record,) = caplog.records
    assert (record.getMessage(), record.__dict__["position"]) == ("segment_damaged", 7)
