"""The kind of a folder is that of its address."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipeline.errors import BadJob
from headrace.pipeline.folders.opened import open_folder


def test_path_is_a_folder_of_this_machine(tmp_path: Path) -> None:
    assert open_folder(tmp_path).path == tmp_path
    assert open_folder(f"file:{tmp_path}").path == tmp_path


def test_folder_stays_the_same(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    assert open_folder(folder) is folder


def test_address_is_not_a_folder_of_this_machine_and_nothing_is_opened_yet() -> None:
    folder = open_folder("hdfs://head:8020/jobs/")
    assert folder.path is None
    assert folder.address == "hdfs://head:8020/jobs"
    assert folder.at("shop").name == "shop"


def test_scheme_without_a_client_is_rejected() -> None:
    with pytest.raises(BadJob, match="s3://"):
        open_folder("s3://bucket/jobs")
