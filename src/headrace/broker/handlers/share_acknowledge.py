"""ShareAcknowledge: accept, release, reject or renew records of a share session. The response waits for durability."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.shares.requests import Acknowledging, is_final, open_or_continue
from headrace.broker.shares.sessions import PartitionKey
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


@handles(ApiKey.SHARE_ACKNOWLEDGE, versions=(1, 2))
async def share_acknowledge(request: ShareAcknowledgeRequest, call: Call) -> ShareAcknowledgeResponse:
    shares = call.parts.shares
    await shares.ready()
    session = open_or_continue(request, shares, call.client, may_open=False)
    acknowledging = Acknowledging(session, shares=shares, topics=call.parts.topics, version=call.version)
    for topic in request.topics:
        for partition in topic.partitions:
            acknowledging.add(topic.topic_id, partition.partition_index, partition.acknowledgement_batches)
    if is_final(request):
        shares.member_left(*session.key, is_orderly=True)
    outcomes = await acknowledging.outcomes()
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=call.parts.group_configs.share(session.key.group_id).rules.lock_ms,
        responses=tuple(
            ShareAcknowledgeTopicResponse(
                topic_id=topic.topic_id,
                partitions=tuple(
                    PartitionData(
                        partition_index=partition.partition_index,
                        error_code=outcome.code,
                        error_message=outcome.message,
                    )
                    for partition in topic.partitions
                    for outcome in (outcomes[PartitionKey(topic.topic_id, partition.partition_index)],)
                ),
            )
            for topic in request.topics
        ),
    )
