from __future__ import annotations

from headrace.edges.direct.numbering import stream_of, streams_of
from headrace.kafka.cluster import Cluster
from tests.edges.conftest import wait_until


def test_streams_differ_by_topic_and_partition() -> None:
    streams = {stream_of(topic, number) for topic in ("a", "b", "a-1") for number in range(3)}
    assert len(streams) == 9


def test_topic_that_is_created_again_has_new_streams(bootstrap: str, topic: str) -> None:
    cluster = Cluster(bootstrap, timeout_s=30)
    before = streams_of(cluster, topic)
    assert streams_of(cluster, topic) == before
    cluster.delete_topics([topic])
    wait_until(lambda: topic not in cluster.topics())
    cluster.create_topic(topic, partitions=1)
    after = streams_of(cluster, topic)
    assert before.keys() == after.keys()
    assert set(before.values()).isdisjoint(after.values())
