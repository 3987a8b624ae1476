"""The contract of folders: the same operations on this machine, in HDFS and in S3, on real servers.

The steps of `lock` with two processes are in tests/pipeline/folders/test_lease.py.
"""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.pipeline.folders.folder import Folder
from headrace.pipeline.folders.opened import open_folder

pytestmark = pytest.mark.timeout(300)

STORES = [
    "local",
    pytest.param("hdfs", marks=pytest.mark.cluster),
    pytest.param("s3", marks=pytest.mark.cluster),
]


@pytest.fixture(params=STORES)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """One that does not exist yet."""
    if request.param == "local":
        return open_folder(tmp_path / "a folder")
    server = request.getfixturevalue(request.param)
    if request.param == "s3":
        properties = server.write_properties(tmp_path / "spark.conf")
        monkeypatch.setenv("HEADRACE_PIPELINE_SPARK_PROPERTIES", str(properties))
    return open_folder(f"{server.address}/{uuid.uuid4().hex}/a folder")


def test_folder_that_does_not_exist_is_empty(folder: Folder) -> None:
    assert not folder.exists()
    assert folder.names() == []
    assert folder.names("a/b") == []
    assert list(folder.hidden_files()) == []
    with pytest.raises(FileNotFoundError):
        folder.read("a")
    folder.delete("a")
    folder.clear("a")


def test_content_is_what_was_written_last(folder: Folder) -> None:
    inner = folder.at("inner")
    assert inner.name == "inner"
    assert inner.create("file", b"")
    assert inner.read("file") == b""
    for content in ("first", "second, longer", "ü\n"):
        inner.write("file", content.encode())
        assert folder.read("inner/file") == content.encode()
    assert folder.names() == ["inner"]
    assert inner.names() == ["file"]
    assert inner.exists("file")
    assert not inner.exists("other")


def test_names_are_those_of_files_and_folders(folder: Folder) -> None:
    names = {"0", "1", ".hidden", "with space", "a=b; c, d"}
    for name in names:
        folder.create(name, b"x")
    folder.create("folder/file", b"x")
    assert set(folder.names()) == {*names, "folder"}
    assert [Path(name).name for name in folder.hidden_files()] == [".hidden"]


def test_folder_without_files_has_no_names(folder: Folder) -> None:
    folder.create("a/b/c", b"x")
    folder.delete("a/b/c")
    assert folder.names("a/b") == []


def test_of_several_that_create_a_file_one_succeeds(folder: Folder) -> None:
    folder.create("other", b"")

    def create(number: int) -> bool:
        return open_folder(folder.address).create("file", str(number).encode())

    with ThreadPoolExecutor(8) as threads:
        created = list(threads.map(create, range(8)))
    assert created.count(True) == 1
    assert folder.read("file") == str(created.index(True)).encode()
    assert set(folder.names()) == {"file", "other"}


def test_folder_is_deleted_with_everything_in_it(folder: Folder) -> None:
    folder.create("a/b/c", b"x")
    folder.create("d", b"x")
    folder.delete("a")
    assert folder.names() == ["d"]
    folder.delete("d")
    assert not folder.exists("d")


def test_folder_is_filled_after_it_was_cleared(folder: Folder) -> None:
    folder.create("marker", b"old")
    folder.create("old/file", b"x")
    folder.clear("marker")
    folder.fill({"marker": "new", "inner/file": "content"}, "marker")
    folder.remove_leftovers()
    assert set(folder.names()) == {"marker", "inner"}
    assert folder.read("inner/file") == b"content"


def test_lock_is_held_by_one_until_it_is_released(folder: Folder) -> None:
    folder.create("file", b"")
    first, second = folder.lock("lock"), folder.lock("lock")
    assert not first.is_taken()
    assert first.take()
    assert second.is_taken()
    assert first.loss() == ""
    first.release()
    assert not second.is_taken()
    assert second.take()
    second.release()
