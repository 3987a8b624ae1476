"""TxnOffsetCommit: commit the offsets of a group with a transaction.

3: the member that commits, so that a member that lost its partitions is rejected. 4: the error TRANSACTION_ABORTABLE.
5: the first commit adds the offsets of the group to the transaction, without AddOffsetsToTxn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.offsets import CommittedOffset, TopicPartition
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.handlers.add_partitions_to_txn import when_durable
from headrace.broker.refusals import RequestRefused
from headrace.broker.transactions import state as transactions
from headrace.log.errors import StorageFailed
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ABORTABLE_SINCE = 4
ADDS_SINCE = 5

OFFSETS_PARTITION = transactions.TopicPartition(OFFSETS_TOPIC, 0)


@handles(ApiKey.TXN_OFFSET_COMMIT, versions=(0, 5))
async def txn_offset_commit(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    if not request.group_id:
        return _respond(request, {}, ErrorCode.INVALID_GROUP_ID)
    errors: dict[TopicPartition, ErrorCode] = {}
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for name, partition in _partitions(request):
        error = _check(name, partition, call)
        if error is ErrorCode.NONE:
            offsets[name] = _committed(partition, call)
        else:
            errors[name] = error
    try:
        await _commit(request, offsets, call)
    except RequestRefused as refused:
        return _respond(request, errors, _code_for(refused.code, call))
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
    committed = parts.groups.offsets.commit_in_transaction(
        request.group_id,
        offsets,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    await asyncio.gather(when_durable(added, call), parts.flusher.durable(committed))


def _code_for(code: ErrorCode, call: Call) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and call.version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and call.version < ADDS_SINCE:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # older clients retry only after this error
    return code


def _partitions(
    request: TxnOffsetCommitRequest,
) -> Iterator[tuple[TopicPartition, TxnOffsetCommitRequestPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition


def _check(name: TopicPartition, partition: TxnOffsetCommitRequestPartition, call: Call) -> ErrorCode:
    if call.parts.topics.partition(*name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata = partition.committed_metadata or ""
    if len(metadata.encode()) > call.parts.settings.offset_metadata_bytes_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _committed(partition: TxnOffsetCommitRequestPartition, call: Call) -> CommittedOffset:
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        committed_at_ms=call.parts.runtime.clock.now_ms(),
    )


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
