"""Errors of other file systems. What works is in tests/contract/test_folders.py."""

from __future__ import annotations

import pytest

from headrace.pipeline.errors import BadJob
from headrace.pipeline.folders.folder import FolderUnavailable
from headrace.pipeline.folders.hadoop import HadoopFolder
from headrace.testing.requirements import require_java


@pytest.fixture(autouse=True)
def java() -> None:
    require_java()


def test_file_system_that_does_not_exist_is_a_permanent_error() -> None:
    with pytest.raises(BadJob, match='No FileSystem for scheme "nofs"') as failed:
        HadoopFolder("nofs://a/b").names()
    assert "spark.jars" in failed.value.hint


def test_server_that_does_not_respond_is_an_error_that_is_retried() -> None:
    with pytest.raises(FolderUnavailable, match=r"cannot read hdfs://127.0.0.1:1/jobs/metadata") as failed:
        HadoopFolder("hdfs://127.0.0.1:1/jobs").read("metadata")
    assert not isinstance(failed.value, BadJob)


def test_name_that_is_unknown_is_a_permanent_error() -> None:
    with pytest.raises(BadJob, match=r"no-such-host.invalid"):
        HadoopFolder("hdfs://no-such-host.invalid:1/jobs").names()
