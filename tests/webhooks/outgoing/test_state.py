"""What other commands see of a target."""

from __future__ import annotations

from pathlib import Path

from headrace.webhooks.outgoing.state import TargetFolder, TargetState, TargetStatus, runner_lock


def test_new_target_has_no_status_yet(tmp_path: Path) -> None:
    assert TargetFolder(tmp_path, "t").status() == TargetStatus(state=TargetState.NEW)


def test_running_target_whose_process_was_killed_is_shown_as_killed(tmp_path: Path) -> None:
    folder = TargetFolder(tmp_path, "t")
    folder.write_status(TargetStatus(state=TargetState.RUNNING, delivered=3))
    assert folder.status() == TargetStatus(state=TargetState.KILLED, delivered=3)
    lock = runner_lock(tmp_path)
    assert lock.take()
    assert folder.status().state is TargetState.RUNNING
    lock.release()


def test_pause_survives_and_ends_with_resume(tmp_path: Path) -> None:
    folder = TargetFolder(tmp_path, "t")
    folder.pause("HTTP 410", 5)
    again = TargetFolder(tmp_path, "t")
    assert again.status() == TargetStatus(state=TargetState.PAUSED, error="HTTP 410")
    again.resume()
    again.resume()
    assert folder.paused() is None


def test_damaged_file_of_a_pause_is_a_pause(tmp_path: Path) -> None:
    folder = TargetFolder(tmp_path, "t")
    folder.pause("why", 5)
    (folder.path / "paused.json").write_text("{")
    found = folder.paused()
    assert found is not None
    assert "is damaged" in found.reason


def test_removed_target_has_no_files(tmp_path: Path) -> None:
    folder = TargetFolder(tmp_path, "t")
    folder.write_status(TargetStatus())
    folder.remove()
    folder.remove()
    assert not folder.path.exists()
