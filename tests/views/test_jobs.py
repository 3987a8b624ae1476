"""The job of a version: its name, its position, and what is deleted with it."""

from __future__ import annotations

from pathlib import Path

from headrace.kafka.cluster import Cluster, Partition
from headrace.views.jobs import checkpoint_of, delete_job, ends_of, job_name, letters_topic
from tests.views.checkpoints import commit
from tests.views.topics import create_topic


def test_versions_share_no_name() -> None:
    names = {job_name("users", 1), job_name("users", 2), job_name("users_by_city", 1)}
    assert len(names) == 3
    assert letters_topic("users", 2) == "dlq.view.users.2"


def test_position_is_that_of_the_last_committed_batch(tmp_path: Path) -> None:
    assert ends_of("users", 1, tmp_path) == ()
    commit("users", 1, tmp_path, '{"t":{"0":7}}')
    assert ends_of("users", 1, tmp_path) == ('{"t":{"0":7}}',)
    offsets = Path(checkpoint_of("users", 1, tmp_path).folder.address) / "offsets"
    (offsets / "1").write_text((offsets / "0").read_text().replace("7", "9"))
    assert ends_of("users", 1, tmp_path) == ('{"t":{"0":7}}',), "a planned batch does not count"


def test_checkpoint_and_committed_offsets_are_deleted(tmp_path: Path, bootstrap: str) -> None:
    cluster = Cluster(bootstrap, timeout_s=30)
    topic = "views-of-jobs"
    create_topic(cluster, topic, partitions=1, exist_ok=True)
    group = f"headrace-job-{job_name('gone', 1)}"
    cluster.commit(group, {Partition(topic, 0): 0})
    commit("gone", 1, tmp_path, '{"t":{"0":7}}')
    delete_job("gone", 1, cluster=cluster, data_dir=tmp_path)
    assert ends_of("gone", 1, tmp_path) == ()
    assert cluster.committed(group) == {}
    delete_job("gone", 1, cluster=cluster, data_dir=tmp_path)
