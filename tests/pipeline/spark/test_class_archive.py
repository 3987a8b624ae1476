"""The archive of Spark's classes: used if it exists and fits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.pipeline.spark import class_archive
from headrace.testing.requirements import require_java


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder instead of the user's."""
    require_java()
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.usefixtures("cache")
def test_without_an_archive_a_jvm_gets_no_option() -> None:
    assert class_archive.java_options() == ""


def test_archive_that_exists_is_used(cache: Path) -> None:
    archive = class_archive.archive_path()
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"")

    assert archive.is_relative_to(cache)
    assert class_archive.java_options() == f"-XX:SharedArchiveFile={archive}"


def test_path_that_spark_would_split_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_java()
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "my cache"))
    archive = class_archive.archive_path()
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"")

    assert class_archive.java_options() == ""


def test_java_ignores_an_archive_that_does_not_fit(tmp_path: Path) -> None:
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(b"the archive of another Java")
    command = [require_java(), f"-XX:SharedArchiveFile={archive}", "-version"]

    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
