"""The HDFS of the test kit."""

from __future__ import annotations

import pytest

from headrace.pipeline.folders.opened import open_folder
from headrace.testing import HdfsCluster
from headrace.testing.requirements import require_java


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_files_are_kept_until_it_stops() -> None:
    require_java()
    with HdfsCluster() as hdfs:
        folder = open_folder(f"{hdfs.address}/a")
        folder.write("file", b"content")
        assert folder.read("file") == b"content"
    assert not hdfs.folder.exists()
