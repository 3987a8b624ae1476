"""Creating the archive of Spark's classes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.java import cache_folder, fetch_jars
from headrace.pipeline.spark.class_archive import archive_path
from headrace.pipeline.spark.prepare import create_archive
from headrace.pipeline.spark.session import CONNECTOR
from headrace.testing.requirements import require_java


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder instead of the user's."""
    require_java()
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.usefixtures("cache")
def test_archive_that_exists_is_not_created_again(capsys: pytest.CaptureFixture[str]) -> None:
    path = archive_path()
    path.parent.mkdir(parents=True)
    path.write_bytes(b"an archive")

    assert create_archive() == path
    assert path.read_bytes() == b"an archive"
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_archive_is_created_once_and_sessions_load_their_classes_from_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_CACHE")
    jars = fetch_jars(CONNECTOR)
    monkeypatch.setenv("HEADRACE_CACHE", str(cache))
    (cache / "java").mkdir(parents=True)
    (cache_folder() / "java" / jars.name).symlink_to(jars)

    first = create_archive().stat()
    assert create_archive().stat() == first

    loaded = tmp_path / "loaded.log"
    options = f"-Xlog:class+load=info:file={loaded}"
    program = (
        "from headrace.pipeline import session\n"
        f"session('archive', data_dir={str(tmp_path)!r}, conf={{'spark.driver.extraJavaOptions': {options!r}}}).stop()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    sources = re.findall(r" org\.apache\.spark\.sql\.SparkSession source: (.+)", loaded.read_text())
    assert sources == ["shared objects file (top)"]
