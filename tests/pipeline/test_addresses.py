"""Addresses of folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipeline.addresses import is_remote, local_path, normal, scheme_of
from headrace.pipeline.errors import BadJob


@pytest.mark.parametrize("address", ["/a b", "file:/a b", "file:///a b", Path("/a b")])
def test_folder_of_this_machine_is_a_path(address: str | Path) -> None:
    assert not is_remote(address)
    assert local_path(address) == Path("/a b")
    assert normal(address) == "/a b"


def test_relative_path_is_one_of_the_working_directory() -> None:
    assert normal("data") == str(Path.cwd() / "data")


@pytest.mark.parametrize("address", ["hdfs://head:8020/jobs", "s3a://bucket/jobs/"])
def test_address_of_another_file_system_stays_as_it_is(address: str) -> None:
    assert is_remote(address)
    assert normal(address) == address.rstrip("/")


def test_scheme_that_spark_does_not_know_is_rejected_with_the_one_that_it_knows() -> None:
    assert scheme_of("s3://bucket/jobs") == "s3"
    with pytest.raises(BadJob, match="s3://") as rejected:
        normal("s3://bucket/jobs")
    assert rejected.value.hint == "write s3a://bucket/jobs"
