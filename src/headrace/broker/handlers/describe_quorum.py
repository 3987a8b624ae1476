"""DescribeQuorum: this broker is the only voter, and the leader.

It stores its metadata in files, not in a log. So the offsets are 0, and the only voter has always caught up.
"""

from __future__ import annotations

import uuid

from headrace.broker.dispatch import Call, handles
from headrace.broker.endpoint import endpoint_for
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
    TopicData,
)

METADATA_TOPIC = "__cluster_metadata"
THE_QUORUM = (
    RequestTopicData(topic_name=METADATA_TOPIC, partitions=(RequestPartitionData(partition_index=0),)),
)
LEADER_EPOCH = 1


@handles(ApiKey.DESCRIBE_QUORUM, versions=(0, 2))
def describe_quorum(request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
    if request.topics != THE_QUORUM:
        return DescribeQuorumResponse(error_message="", topics=tuple(map(_unknown, request.topics)))
    endpoint = endpoint_for(call.client, call.parts.settings)
    now_ms = call.parts.runtime.clock.now_ms()
    voter = ReplicaState(
        replica_id=endpoint.node_id,
        replica_directory_id=_directory_id(call),
        log_end_offset=0,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    quorum = PartitionData(
        partition_index=0,
        error_message="",
        leader_id=endpoint.node_id,
        leader_epoch=LEADER_EPOCH,
        high_watermark=0,
        current_voters=(voter,),
    )
    listener = Listener(name="PLAINTEXT", host=endpoint.host, port=endpoint.port)
    return DescribeQuorumResponse(
        error_message="",
        topics=(TopicData(topic_name=METADATA_TOPIC, partitions=(quorum,)),),
        nodes=(Node(node_id=endpoint.node_id, listeners=(listener,)),),
    )


def _directory_id(call: Call) -> uuid.UUID:
    """The cluster has one folder, so the id of the cluster identifies the folder."""
    return uuid.uuid5(uuid.NAMESPACE_OID, call.parts.cluster_id)


def _unknown(topic: RequestTopicData) -> TopicData:
    return TopicData(
        topic_name=topic.topic_name,
        partitions=tuple(
            PartitionData(
                partition_index=partition.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message="only partition 0 of __cluster_metadata has a quorum",
            )
            for partition in topic.partitions
        ),
    )
