"""Share groups as an operator sees them: members, positions and messages that are not done."""

from __future__ import annotations

import pytest

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import NoSuchGroup
from headrace.kafka.share_groups import describe_share_group, list_share_groups
from headrace.queue import Queue

TIMEOUT_S = 30.0


def test_group_is_listed_and_described_with_the_messages_in_flight(
    cluster: Cluster, bootstrap: str, name: str, request: pytest.FixtureRequest
) -> None:
    cluster.create_topic(name, partitions=1)
    brokers = cluster.brokers()
    with Queue(name, group=name, bootstrap=bootstrap) as queue:
        for text in ("a", "b", "c"):
            queue.put(text)
        first = queue.get(timeout=TIMEOUT_S)
        assert first is not None
        first.accept()
        queue.flush()
        assert (name, "Stable") in list_share_groups(brokers, TIMEOUT_S)
        group = describe_share_group(brokers[0], name, TIMEOUT_S)

    assert (group.group, group.state) == (name, "stable")
    (member,) = group.members
    assert member.partitions == 1
    (partition,) = group.partitions
    assert (partition.topic, partition.partition) == (name, 0)
    if request.config.getoption("--bootstrap-of") == "headrace":
        assert partition.not_done == 2
        assert group.in_flight == member.in_flight == 2


def test_missing_group_is_named(cluster: Cluster, name: str) -> None:
    with pytest.raises(NoSuchGroup, match=f"there is no queue group {name}.*headrace queue list"):
        describe_share_group(cluster.brokers()[0], name, TIMEOUT_S)
