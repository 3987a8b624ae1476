"""The archive of Spark's classes: used where it is, never in the way."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.java import cache_folder, fetch_jars
from headrace.pipeline.spark import class_archive
from headrace.pipeline.spark.prepare import make_archive
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
def test_archive_is_made_once_and_sessions_load_their_classes_from_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.pipeline.spark.session import CONNECTOR

    monkeypatch.delenv("HEADRACE_CACHE")
    jars = fetch_jars(CONNECTOR)
    monkeypatch.setenv("HEADRACE_CACHE", str(cache))
    (cache / "java").mkdir(parents=True)
    (cache_folder() / "java" / jars.name).symlink_to(jars)

    made = make_archive()
    first = made.stat()
    assert make_archive().stat() == first

    loaded = tmp_path / "loaded.log"
    options = f"-Xlog:class+load=info:file={loaded}"
    program = (
        "from headrace.pipeline import session\n"
        f"session('archive', data_dir={str(tmp_path)!r}, conf={{'spark.driver.extraJavaOptions': {options!r}}}).stop()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    sources = re.findall(r" org\.apache\.spark\.sql\.SparkSession source: (.+)", loaded.read_text())
    assert sources == ["shared objects file (top)"]
