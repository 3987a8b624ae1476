"""A Spark cluster that cannot start is an error with its log. tests/pipeline/spark/test_session.py runs a job on
one."""

from __future__ import annotations

import pytest

from headrace.testing import SparkCluster
from headrace.testing.requirements import require_java
from headrace.testing.server_process import ServerUnavailable


def test_cluster_that_cannot_start_is_an_error_with_its_log_and_leaves_no_process() -> None:
    require_java()
    cluster = SparkCluster(workers=1, worker_memory="plenty")
    with pytest.raises(ServerUnavailable, match="worker-0 of the Spark cluster is not ready") as failed:
        cluster.start()
    assert "--properties-file" in failed.value.message  # the usage of a worker
    assert cluster._processes == []
    cluster.stop()
    assert not cluster.folder.exists()
