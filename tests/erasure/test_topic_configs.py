"""What the configs of a topic mean for an erasure."""

from __future__ import annotations

from headrace.erasure.topic_configs import read_configs
from headrace.kafka.cluster import Cluster
from tests.erasure.conftest import CreateTopic

DAY_MS = 86_400_000


def test_only_values_that_are_set_are_restored(cluster: Cluster, create_topic: CreateTopic) -> None:
    configs = read_configs(cluster, create_topic(segment_ms="600000"))
    assert configs.is_compacted
    assert configs.overrides == {
        "min.cleanable.dirty.ratio": None,
        "min.compaction.lag.ms": None,
        "segment.ms": "600000",
    }


def test_record_is_deleted_when_its_segment_is(cluster: Cluster, create_topic: CreateTopic) -> None:
    configs = read_configs(
        cluster, create_topic("delete", retention_ms=str(7 * DAY_MS), segment_ms=str(DAY_MS))
    )
    assert not configs.is_compacted
    assert configs.deleted_by_ms(1000) == 8 * DAY_MS + 1000


def test_record_may_be_kept_forever(cluster: Cluster, create_topic: CreateTopic) -> None:
    assert read_configs(cluster, create_topic("delete", retention_ms="-1")).deleted_by_ms(1000) is None
    assert read_configs(cluster, create_topic("compact")).deleted_by_ms(1000) is None


def test_topic_may_have_both_policies(cluster: Cluster, create_topic: CreateTopic) -> None:
    configs = read_configs(cluster, create_topic("delete,compact"))
    assert configs.policy == "compact,delete"
    assert configs.is_compacted
