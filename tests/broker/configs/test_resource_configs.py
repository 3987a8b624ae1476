"""Configs of named resources: one file, all changes of a request or none."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headrace.broker.configs.definitions import ConfigDefinition, int32
from headrace.broker.configs.resource_configs import ResourceConfigs
from headrace.broker.rejections import RequestRejected
from headrace.errors import HeadraceError
from headrace.log.filesystem import DiskFileSystem, FileSystem
from headrace.testing.failing_filesystem import FailingFileSystem


def no_zero(name: str) -> ConfigDefinition:
    return int32(name, 1, 1, "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "metadata").mkdir()
    return tmp_path


def configs_in(folder: Path, files: FileSystem | None = None, names_max: int = 10) -> ResourceConfigs:
    return ResourceConfigs(
        files or DiskFileSystem(), str(folder), file_name="some.json", definition=no_zero, names_max=names_max
    )


def test_configs_are_there_after_a_restart_whatever_the_name(folder: Path) -> None:
    configs = configs_in(folder)
    configs.replace({"../ä/b": {"x": "1"}, "other": {"y": "2"}})
    configs.replace({"other": {}})
    after = configs_in(folder)
    assert (after.names(), after.of("../ä/b"), after.of("other")) == (["../ä/b"], {"x": "1"}, {})


def test_invalid_change_of_one_resource_changes_none(folder: Path) -> None:
    configs = configs_in(folder)
    with pytest.raises(RequestRejected, match="x=0 is invalid"):
        configs.replace({"a": {"x": "1"}, "b": {"x": "0"}})
    assert configs.names() == configs_in(folder).names() == []


def test_change_that_cannot_be_stored_is_not_made(folder: Path) -> None:
    files = FailingFileSystem()
    configs = configs_in(folder, files)
    files.fail("write_whole", "*some.json", error_number=errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        configs.replace({"a": {"x": "1"}})
    assert configs.names() == []


def test_number_of_resources_is_bounded_and_a_lower_bound_keeps_existing_ones(folder: Path) -> None:
    configs_in(folder).replace({name: {"x": "1"} for name in "abc"})
    configs = configs_in(folder, names_max=2)
    configs.replace({"a": {"x": "2"}})
    with pytest.raises(RequestRejected, match="4 would have configs"):
        configs.replace({"d": {"x": "1"}})
    configs.replace({"a": {}, "d": {"x": "1"}})
    assert sorted(configs.names()) == ["b", "c", "d"]


@pytest.mark.parametrize("content", ["{", "[1]", '{"a": 1}'])
def test_damaged_file_is_an_error_with_a_hint(folder: Path, content: str) -> None:
    (folder / "metadata" / "some.json").write_text(content)
    with pytest.raises(HeadraceError, match=r"some\.json is damaged") as error:
        configs_in(folder)
    assert error.value.hint
