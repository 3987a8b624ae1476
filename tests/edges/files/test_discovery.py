"""Files by pattern and by inode."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

import pytest

from headrace.edges.files.discovery import find, find_renamed, is_compressed, open_file, start_of_last_line
from headrace.edges.files.marks import Identity
from tests.edges.files.conftest import without_privileges


def found(*patterns: str) -> list[str]:
    problems: list[str] = []
    paths = [os.path.basename(each.path) for each in find(patterns, lambda path, _: problems.append(path))]
    assert problems == []
    return paths


def test_pattern_finds_files_in_folders_of_any_depth_each_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("x.log", "a/y.log", "a/b/z.log", "a/other.txt", ".hidden.log"):
        (tmp_path / name).write_text("")

    assert found(f"{tmp_path}/**/*.log", f"{tmp_path}/x.*") == ["z.log", "y.log", "x.log"]
    assert found(f"{tmp_path}/none*.log", f"{tmp_path}/missing/*.log") == []


def test_links_lead_to_one_file_and_only_regular_files_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("")
    (tmp_path / "b.log").symlink_to("a.log")
    os.link(tmp_path / "a.log", tmp_path / "c.log")
    (tmp_path / "d.log").symlink_to("nothing")
    (tmp_path / "e.log").mkdir()
    os.mkfifo(tmp_path / "f.log")

    assert found(f"{tmp_path}/*.log") == ["a.log"]


def test_folder_that_cannot_be_read_is_a_problem() -> None:
    with tempfile.TemporaryDirectory() as folder, without_privileges():
        closed = Path(folder, "closed")
        problems: list[str] = []

        assert [*find([f"{closed}/*.log"], lambda path, _: problems.append(path))] == []
    assert problems == [str(closed)]


def test_loop_of_links_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "loop.log").symlink_to("loop.log")
    problems: list[str] = []

    assert [*find([f"{tmp_path}/loop.log"], lambda path, _: problems.append(path))] == []
    assert problems == [f"{tmp_path}/loop.log"]


def test_renamed_file_is_found_in_its_folder_by_inode(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("x")
    identity = Identity.of(path.stat())
    path.rename(tmp_path / "a.log.1")
    path.write_text("new")

    assert find_renamed(str(path), identity) == str(tmp_path / "a.log.1")
    assert open_file(str(path), identity) is None
    (tmp_path / "a.log.1").unlink()
    assert find_renamed(str(path), identity) is None
    assert find_renamed(str(tmp_path / "gone" / "a.log"), identity) is None


def test_compressed_file_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.log.1.gz"
    path.write_bytes(gzip.compress(b"x"))
    with path.open("rb") as file:
        assert is_compressed(file.fileno())


@pytest.mark.parametrize(
    ("content", "start"),
    [(b"", 0), (b"a\n", 2), (b"a\nb", 2), (b"abc", 0), (b"a\n" + b"x" * 200_000, 2)],
)
def test_last_line_without_its_end_is_read_from_its_start(tmp_path: Path, content: bytes, start: int) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content)
    with path.open("rb") as file:
        assert start_of_last_line(file.fileno(), len(content)) == start
