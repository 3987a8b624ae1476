"""The S3 server of the test kit."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipeline.folders.opened import open_folder
from headrace.testing import S3Server
from headrace.testing.requirements import require_java


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_objects_are_kept_until_it_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_java()
    with S3Server() as s3:
        properties = s3.write_properties(tmp_path / "spark.conf")
        monkeypatch.setenv("HEADRACE_PIPELINE_SPARK_PROPERTIES", str(properties))
        folder = open_folder(f"{s3.address}/a")
        folder.write("file", b"content")
        assert folder.read("file") == b"content"
        assert folder.names() == ["file"]
        assert not folder.exists("fil")
