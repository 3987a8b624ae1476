"""DescribeQuorum over the wire, compared with Apache Kafka."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.protocol.types import ZERO_UUID
from headrace.testing.wire import Wire

NODE_ID = 1


def request(topic: str = "__cluster_metadata", *partitions: int) -> DescribeQuorumRequest:
    wanted = tuple(RequestPartitionData(partition_index=index) for index in partitions)
    return DescribeQuorumRequest(topics=(RequestTopicData(topic_name=topic, partitions=wanted),))


@pytest.mark.parametrize("version", range(3))
def test_the_only_broker_votes_leads_and_has_caught_up(any_wire: Wire, version: int) -> None:
    response = any_wire.request(request("__cluster_metadata", 0), version=version)
    ((quorum,),) = [topic.partitions for topic in response.topics]
    assert (quorum.error_code, quorum.leader_id, quorum.observers) == (0, NODE_ID, ())
    assert quorum.leader_epoch > 0
    (voter,) = quorum.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (NODE_ID, quorum.high_watermark)
    if version >= 2:
        (node,) = response.nodes
        assert node.node_id == NODE_ID
        assert len(node.listeners) == 1


def test_the_folder_of_the_voter_keeps_its_id(wire: Wire) -> None:
    ids = [
        wire.request(request("__cluster_metadata", 0))
        .topics[0]
        .partitions[0]
        .current_voters[0]
        .replica_directory_id
        for _ in range(2)
    ]
    assert ids[0] == ids[1] != ZERO_UUID


@pytest.mark.parametrize(("topic", "partition"), [("__cluster_metadata", 1), ("other", 0)])
def test_other_partitions_have_no_quorum(any_wire: Wire, topic: str, partition: int) -> None:
    response = any_wire.request(request(topic, partition))
    ((result,),) = [topic.partitions for topic in response.topics]
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
