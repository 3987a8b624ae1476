"""The archive of Spark's classes: used where it is, never in the way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.java import cache_folder, fetch_jars
from headrace.pipeline import class_archive
from headrace.testing.requirements import require_java


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder instead of the user's."""
    require_java()
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.usefixtures("cache")
def test_without_an_archive_a_jvm_is_told_nothing() -> None:
    assert class_archive.java_options() == ""


def test_archive_that_is_there_is_used(cache: Path) -> None:
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


def test_java_ignores_an_archive_that_is_unfit(tmp_path: Path) -> None:
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(b"what another Java left")
    command = [require_java(), f"-XX:SharedArchiveFile={archive}", "-version"]

    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_archive_is_made_once_and_java_takes_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.pipeline.spark_session import CONNECTOR

    monkeypatch.delenv("HEADRACE_CACHE")
    jars = fetch_jars(CONNECTOR)
    monkeypatch.setenv("HEADRACE_CACHE", str(cache))
    (cache / "java").mkdir(parents=True)
    (cache_folder() / "java" / jars.name).symlink_to(jars)

    made = class_archive.make_archive()
    first = made.stat()
    assert class_archive.make_archive().stat() == first

    shown = subprocess.run(
        [
            require_java(),
            f"-XX:SharedArchiveFile={made}",
            "-Xlog:cds",
            "-XX:+PrintSharedArchiveAndExit",
            "-version",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "org.apache.spark.sql" in shown.stdout or "org/apache/spark/sql" in shown.stdout, shown.stderr[
        :500
    ]
