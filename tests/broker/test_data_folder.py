"""The data folder: one broker at a time, its cluster id, and its reserve."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.broker.data_folder import RESERVE_NAME, DataFolder
from headrace.errors import HeadraceError
from headrace.log.filesystem import DiskFileSystem
from headrace.testing.failing_filesystem import FailingFileSystem

RESERVE_BYTES = 5_000
Open = Callable[..., DataFolder]


@pytest.fixture
def open_folder(tmp_path: Path) -> Iterator[Open]:
    """Opens the folder; what a test does not release is released after it."""
    with ExitStack() as stack:

        def open_one(files: FailingFileSystem | None = None, **options: int) -> DataFolder:
            folder = DataFolder(tmp_path, files or DiskFileSystem(), **options)
            stack.callback(folder.release)
            return folder

        yield open_one


def test_folder_has_one_broker_at_a_time(tmp_path: Path, open_folder: Open) -> None:
    first = DataFolder(tmp_path, DiskFileSystem())
    with pytest.raises(HeadraceError, match=f"using the data folder {tmp_path}"):
        open_folder()
    first.release()
    assert open_folder().cluster_id == first.cluster_id, "the id stays"


def test_folder_is_free_after_a_damaged_cluster_id(tmp_path: Path, open_folder: Open) -> None:
    DataFolder(tmp_path, DiskFileSystem()).release()
    path = tmp_path / "metadata" / "cluster-id"
    path.write_text("no id\n")
    with pytest.raises(HeadraceError, match="cluster-id is damaged"):
        open_folder()
    path.unlink()
    assert len(open_folder().cluster_id) == 22


def test_reserve_is_disk_space_until_it_is_used(tmp_path: Path, open_folder: Open) -> None:
    folder = open_folder(reserve_bytes=RESERVE_BYTES)
    reserve = tmp_path / RESERVE_NAME
    folder.use_reserve()
    folder.take_reserve()
    written = reserve.read_bytes()
    assert len(written) == RESERVE_BYTES
    folder.take_reserve()
    assert reserve.read_bytes() == written, "it is reserved already"
    folder.use_reserve()
    assert not reserve.exists()


def test_full_disk_is_no_reason_to_fail(open_folder: Open, caplog: pytest.LogCaptureFixture) -> None:
    files = FailingFileSystem()
    folder = open_folder(files, reserve_bytes=RESERVE_BYTES)
    files.fail("write_whole", f"*{RESERVE_NAME}", error_number=errno.ENOSPC)
    folder.take_reserve()
    assert "no disk space for the reserve" in caplog.text
