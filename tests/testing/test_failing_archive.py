"""An archive that fails where a test wants it to: errors, half an object, corrupt bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log.archive.fsspec_store import open_store
from headrace.log.errors import ArchiveUnreachable
from headrace.testing import FailingArchive, PowerLost


@pytest.fixture
def archive(tmp_path: Path) -> FailingArchive:
    (tmp_path / "archive").mkdir()
    return FailingArchive(store=open_store(str(tmp_path / "archive")))


def test_operation_fails_as_often_as_wanted(archive: FailingArchive) -> None:
    archive.put("a/1", b"one")
    failure = archive.fail("read", "a/*")
    with pytest.raises(ArchiveUnreachable, match="read of a/1 failed"):
        archive.read("a/1")
    assert (archive.read("a/1"), failure.happened) == (b"one", 1)
    archive.fail("*", times=None)
    with pytest.raises(ArchiveUnreachable):
        archive.list("a/")
    archive.heal()
    assert archive.list("a/") == [("a/1", 3)]


def test_put_that_loses_power_leaves_half_of_the_object(archive: FailingArchive) -> None:
    archive.power.lose_power_at(0)
    with pytest.raises(PowerLost):
        archive.put("a/1", b"0123456789")
    assert archive.read("a/1") == b"01234"


def test_flipped_object_is_stored_with_one_wrong_bit(archive: FailingArchive, tmp_path: Path) -> None:
    archive.flipped.append("*.log")
    (tmp_path / "segment").write_bytes(b"abc")
    archive.put_file("a/1.log", str(tmp_path / "segment"))
    archive.put_file("a/1.index", str(tmp_path / "segment"))
    assert (archive.read("a/1.log"), archive.read("a/1.index")) == (b"`bc", b"abc")


def test_each_deleted_object_is_an_operation(archive: FailingArchive) -> None:
    archive.put("a/1", b"1")
    archive.put("a/2", b"2")
    archive.fail("delete", "a/2")
    with pytest.raises(ArchiveUnreachable):
        archive.delete(["a/1", "a/2"])
    assert archive.list("a/") == [("a/2", 1)]
    assert archive.operations[-2] == ("delete", "a/2")


def test_unknown_operation_is_rejected(archive: FailingArchive) -> None:
    with pytest.raises(AssertionError, match="unknown operation 'copy'"):
        archive.fail("copy")  # type: ignore[arg-type]
