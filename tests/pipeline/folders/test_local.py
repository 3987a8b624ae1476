"""What only a folder of this machine has; the rest is in tests/contract/test_folders.py."""

from __future__ import annotations

from pathlib import Path

from headrace.pipeline.folders.local import LocalFolder


def test_interrupted_steps_leave_nothing(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path / "folder")
    for name in ("removed", "restored"):
        (tmp_path / f".folder.{name}" / "inner").mkdir(parents=True)
    folder.remove_leftovers()
    assert list(tmp_path.iterdir()) == []


def test_hidden_files_are_found_at_any_depth(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    folder.create(".a", b"")
    folder.create("state/0/1/.b.tmp", b"")
    assert {Path(name).as_posix() for name in folder.hidden_files()} == {".a", "state/0/1/.b.tmp"}


def test_interrupted_filling_changes_nothing(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path / "folder")
    folder.fill({"inner/file": "x"}, "inner/file")
    (tmp_path / ".folder.restored").mkdir()
    (tmp_path / ".folder.restored" / "half").touch()
    assert folder.names() == ["inner"]
    folder.clear("inner")
    folder.fill({"file": "y"}, "file")
    assert folder.names() == ["file"]
