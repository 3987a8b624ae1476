"""TxnOffsetCommit: commit the offsets of a group with a transaction.

3: the member that commits, so that a member that lost its partitions is rejected. 4: the error TRANSACTION_ABORTABLE.
5: the first commit adds the offsets of the group to the transaction, without AddOffsetsToTxn.
"""

from __future__ import annotations

import asyncio

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.group_offsets import Committer
from headrace.broker.groups.offsets import CommittedOffset, TopicPartition
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.handlers.add_partitions_to_txn import when_durable
from headrace.broker.handlers.offset_commit import check_commit, committed
from headrace.broker.rejections import RequestRejected
from headrace.broker.transactions import state as transactions
from headrace.log.errors import StorageFailed
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ABORTABLE_SINCE = 4
ADDS_SINCE = 5

OFFSETS_PARTITION = TopicPartition(OFFSETS_TOPIC, 0)


@handles(ApiKey.TXN_OFFSET_COMMIT, versions=(0, 5))
async def txn_offset_commit(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    if not request.group_id:
        return _respond(request, {}, ErrorCode.INVALID_GROUP_ID)
    errors: dict[TopicPartition, ErrorCode] = {}
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            error = check_commit(key, partition, call)
            if error is ErrorCode.NONE:
                offsets[key] = committed(partition, call)
            else:
                errors[key] = error
    try:
        await _commit(request, offsets, call)
    except RequestRejected as rejected:
        return _respond(request, errors, _code_for(rejected.code, call))
    except StorageFailed:
        return _respond(request, errors, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _respond(request, errors, ErrorCode.NONE)


async def _commit(
    request: TxnOffsetCommitRequest, offsets: dict[TopicPartition, CommittedOffset], call: Call
) -> None:
    parts = call.parts
    producer = transactions.Producer(id=request.producer_id, epoch=request.producer_epoch)
    added = None
    if call.version >= ADDS_SINCE:
        added = parts.transactions.add_partitions(
            request.transactional_id,
            producer,
            [OFFSETS_PARTITION],
            transactions.ClientVersion.EPOCH_BUMPS,
        )
    else:
        parts.transactions.check_partition(request.transactional_id, producer, OFFSETS_PARTITION)
    if not offsets:
        return
    by = Committer(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    committing = parts.groups.offsets.commit_in_transaction(
        request.group_id, offsets, by, producer_id=producer.id, producer_epoch=producer.epoch
    )
    await asyncio.gather(when_durable(added, call), parts.flusher.durable(committing))


def _code_for(code: ErrorCode, call: Call) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and call.version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and call.version < ADDS_SINCE:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # older clients retry only after this error
    return code


def _respond(
    request: TxnOffsetCommitRequest, errors: dict[TopicPartition, ErrorCode], code: ErrorCode
) -> TxnOffsetCommitResponse:
    """Partitions with an error keep it; all others get the error of the request."""
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=errors.get(TopicPartition(topic.name, partition.partition_index), code),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
