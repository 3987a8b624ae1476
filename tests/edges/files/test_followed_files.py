"""Which files are followed; tests/edges/files/test_follower.py has what is read of them."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from pathlib import Path

import pytest

from headrace.edges.errors import BadEdge
from headrace.edges.files.followed_files import FollowedFiles
from headrace.edges.files.positions import Positions
from headrace.edges.files.settings import FilesSettings
from tests.edges.files.conftest import Logs, without_privileges


def test_file_without_permission_is_reported_once_and_tried_again(bootstrap: str) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o777)
        secret, problems = folder / "secret.log", list[str]()
        secret.write_text("one\n")
        secret.chmod(0)
        settings = FilesSettings(name="e", patterns=(f"{folder}/*.log",), topic="t", from_beginning=True)
        with without_privileges():
            files = FollowedFiles(settings, Positions(folder / "positions"), on_problem=problems.append)
            files.look()
            assert len(files) == 0
            assert files.unreadable == {str(secret): "Permission denied"}
            assert problems == [f"{secret}: Permission denied; the edge tries again"]
        secret.chmod(0o644)
        with without_privileges():
            files.look()
            assert (len(files), files.unreadable) == (1, {})
            files.close()
    finally:
        shutil.rmtree(folder)


def test_compressed_file_is_reported_once_and_not_read(logs: Logs) -> None:
    path = logs.write("a.log", "one\n")
    with logs.run("*.log*", from_beginning=True) as running:
        running.read()
        (logs.folder / "a.log.1.gz").write_bytes(gzip.compress(path.read_bytes()))
        running.read()
        running.read()
        assert len(running.files) == 1
    assert logs.values == ["one"]
    assert logs.problems == [f"{logs.folder}/a.log.1.gz is compressed, and not read"]


def test_link_that_leads_to_another_file_is_a_rotation(logs: Logs) -> None:
    for name in ("first", "second"):
        (logs.folder / name).write_text(f"{name}\n")
    link = logs.folder / "current.log"
    link.symlink_to("first")
    with logs.run(from_beginning=True) as running:
        running.read()
        link.unlink()
        link.symlink_to("second")
        running.read()
        assert running.files.counts["rotated"] == 1
    assert logs.values == ["first", "second"]


def test_kill_before_the_first_line_does_not_move_the_beginning(logs: Logs) -> None:
    """The first run is killed directly after it has looked at the files."""
    logs.write("a.log", "before\n")
    settings = FilesSettings(name="e", patterns=(f"{logs.folder}/*.log",), topic="t")
    positions = Positions(logs.positions)
    FollowedFiles(settings, positions, on_problem=logs.problems.append)
    positions.close()
    logs.write("a.log", "after\n")
    with logs.run() as running:
        running.read()
    assert logs.values == ["after"]


def test_wrong_expression_is_an_error_before_a_file_is_found(logs: Logs) -> None:
    with pytest.raises(BadEdge, match="--multiline-start"), logs.run(multiline_start="("):
        pass
