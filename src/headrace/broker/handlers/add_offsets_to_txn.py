"""AddOffsetsToTxn: add the offsets of a group to a transaction before it commits them.

2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.handlers.add_partitions_to_txn import code_for, when_durable
from headrace.broker.refusals import RequestRefused
from headrace.broker.transactions.state import ClientVersion, Producer, TopicPartition
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE = 2


@handles(ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4))
async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
    if not request.group_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    producer = Producer(id=request.producer_id, epoch=request.producer_epoch)
    try:
        added = call.parts.transactions.add_partitions(
            request.transactional_id, producer, [TopicPartition(OFFSETS_TOPIC, 0)], ClientVersion.CLASSIC
        )
        await when_durable(added, call)
    except RequestRefused as refused:
        return AddOffsetsToTxnResponse(error_code=code_for(refused.code, call, fenced_since=FENCED_SINCE))
    return AddOffsetsToTxnResponse()
