from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.views.definition import Definition
from headrace.views.errors import BadView
from headrace.views.stores.folder_versions import FolderVersions

DEFINITION = Definition(name="users", topics=("t",), key=("id",), store="search")


@pytest.fixture
def folders(tmp_path: Path) -> FolderVersions:
    return FolderVersions(DEFINITION, tmp_path / "views")


def build(folders: FolderVersions, version: int) -> None:
    folders.path(version).mkdir(parents=True)
    (folders.path(version) / "rows").write_text(str(version))


def test_name_is_a_link_that_other_programs_follow(folders: FolderVersions) -> None:
    for version in (1, 2):
        build(folders, version)
        folders.switch(version)
        assert (folders.base / "users" / "rows").read_text() == str(version)
    assert os.readlink(folders.link) == "users__2"


def test_versions_of_views_with_longer_names_are_others(folders: FolderVersions) -> None:
    build(folders, 1)
    for name in ("users_by_city__3", "users__x", "users__4.bak", "users"):
        (folders.base / name).mkdir()
    assert folders.versions() == [1]


def test_link_that_a_killed_switch_left_is_no_obstacle(folders: FolderVersions) -> None:
    build(folders, 1)
    (folders.base / f".users.{os.getpid()}").symlink_to("users__9")
    folders.switch(1)
    assert folders.served() == 1


def test_half_dropped_version_is_dropped_by_the_next_call(folders: FolderVersions) -> None:
    build(folders, 1)
    build(folders, 2)
    folders.path(1).rename(folders.base / ".users__1.dropped")
    folders.drop(1)
    assert os.listdir(folders.base) == ["users__2"]


def test_link_to_a_folder_of_others_is_not_replaced(folders: FolderVersions, tmp_path: Path) -> None:
    build(folders, 1)
    folders.link.symlink_to(tmp_path)
    with pytest.raises(BadView, match="is not a view"):
        folders.switch(1)
    assert os.readlink(folders.link) == str(tmp_path)


def test_place_that_is_no_folder_is_rejected_and_nothing_is_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadView, match="cannot be written"):
        FolderVersions(DEFINITION, tmp_path / "file" / "views").check()
    FolderVersions(DEFINITION, tmp_path / "new" / "views").check()
    assert os.listdir(tmp_path) == ["file"]
