"""What every archive store promises: one suite for folders and for fsspec's file systems."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.log.archive.fsspec_store import FsspecStore, open_store
from headrace.log.archive.store import ArchiveStore, FolderStore
from headrace.log.errors import ArchiveUnreachable, ObjectMissing


@pytest.fixture(
    params=["folder", "fsspec file", "fsspec memory", pytest.param("fsspec s3", marks=pytest.mark.slow)]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ArchiveStore]:
    root = tmp_path / "archive"
    root.mkdir()
    if request.param == "folder":
        yield open_store(str(root))
    elif request.param == "fsspec file":
        yield FsspecStore(f"file://{root}")
    elif request.param == "fsspec s3":
        yield FsspecStore(f"s3://archive/{uuid.uuid4()}", **request.getfixturevalue("s3_options"))
    else:
        yield open_store(f"memory://{uuid.uuid4()}/deep")


@pytest.fixture(scope="module")
def s3_options() -> Iterator[dict[str, Any]]:
    """An S3 of moto's in this process, with a bucket called archive; skipped where moto or s3fs is not installed."""
    server_module = pytest.importorskip("moto.server", reason="pip install 'moto[server]'")
    s3fs = pytest.importorskip("s3fs", reason="pip install s3fs")
    server = server_module.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"endpoint_url": f"http://{host}:{port}", "key": "any", "secret": "any"}
    try:
        s3fs.S3FileSystem(**options).mkdir("archive")
        yield options
    finally:
        server.stop()


@pytest.fixture
def local(tmp_path: Path) -> Callable[[bytes], str]:
    def write(content: bytes) -> str:
        path = tmp_path / f"{uuid.uuid4()}"
        path.write_bytes(content)
        return str(path)

    return write


def test_file_is_read_back_unchanged(store: ArchiveStore, local: Callable[[bytes], str]) -> None:
    content = os.urandom(3_000_000)
    store.put_file("topic/0/1.log", local(content))
    assert store.read("topic/0/1.log") == content
    assert store.list("topic/") == [("topic/0/1.log", len(content))]


def test_parts_of_an_object_can_be_read(store: ArchiveStore) -> None:
    store.put("topic/0/1.log", b"0123456789")
    assert store.read("topic/0/1.log", 3, 4) == b"3456"
    assert store.read("topic/0/1.log", 8, 100) == b"89"
    assert store.read("topic/0/1.log", 3, 0) == b""
    assert store.read("topic/0/1.log", 3) == b"3456789"


def test_empty_object_is_an_object(store: ArchiveStore, local: Callable[[bytes], str]) -> None:
    store.put_file("topic/0/1.index", local(b""))
    assert store.read("topic/0/1.index") == b""
    assert store.list("topic/0/") == [("topic/0/1.index", 0)]


def test_second_put_replaces_the_first(store: ArchiveStore, local: Callable[[bytes], str]) -> None:
    store.put("topic/0/1.log", b"first, and longer")
    store.put_file("topic/0/1.log", local(b"second"))
    assert store.read("topic/0/1.log") == b"second"
    assert store.list("topic/") == [("topic/0/1.log", 6)]


def test_missing_object_is_distinguished_from_a_missing_archive(store: ArchiveStore) -> None:
    with pytest.raises(ObjectMissing):
        store.read("topic/0/none.log")
    with pytest.raises(ObjectMissing):
        store.read("topic/0/none.log", 5, 10)


def test_deleting_a_missing_object_is_no_error(store: ArchiveStore) -> None:
    store.put("topic/0/1.log", b"1")
    store.put("topic/0/2.log", b"2")
    store.delete(["topic/0/none.log", "topic/0/1.log", "other/3/none.log"])
    assert store.list("topic/") == [("topic/0/2.log", 1)]
    store.delete(["topic/0/2.log"])
    assert store.list("topic/") == []


def test_list_keeps_to_its_prefix(store: ArchiveStore) -> None:
    for name in ("a/0/1.log", "a/1/1.log", "a/10/1.log", "ab/0/1.log"):
        store.put(name, b"x")
    assert sorted(name for name, _ in store.list("a/1/")) == ["a/1/1.log"]
    assert sorted(name for name, _ in store.list("a/")) == ["a/0/1.log", "a/1/1.log", "a/10/1.log"]
    assert store.list("none/") == []


def test_folder_that_is_not_there_is_an_archive_that_cannot_be_reached(
    tmp_path: Path, local: Callable[[bytes], str]
) -> None:
    store = open_store(str(tmp_path / "unmounted"))
    for use in (
        lambda: store.put_file("a/0/1.log", local(b"x")),
        lambda: store.put("a/0/1.log", b"x"),
        lambda: store.read("a/0/1.log"),
        lambda: store.delete(["a/0/1.log"]),
        lambda: store.list("a/"),
    ):
        with pytest.raises(ArchiveUnreachable, match="unmounted"):
            use()
    assert not (tmp_path / "unmounted").exists()


def test_put_that_fails_leaves_the_object_as_it_was(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path))
    store.put("a/0/1.log", b"old")
    (tmp_path / "a/0/1.log.part").mkdir()
    with pytest.raises(ArchiveUnreachable):
        store.put("a/0/1.log", b"new")
    assert store.read("a/0/1.log") == b"old"
