"""AddOffsetsToTxn: add the offsets of a group to a transaction before it commits them.

2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.handlers.add_partitions_to_txn import fencing_as_known, when_durable
from headrace.broker.rejections import RequestRejected
from headrace.broker.transactions.state import ClientVersion, Producer
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE = 2


@handles(ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4))
async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
    if not request.group_id:
        raise RequestRejected(ErrorCode.INVALID_GROUP_ID)
    producer = Producer(id=request.producer_id, epoch=request.producer_epoch)
    with fencing_as_known(call, since=FENCED_SINCE):
        added = call.parts.transactions.add_partitions(
            request.transactional_id, producer, [TopicPartition(OFFSETS_TOPIC, 0)], ClientVersion.CLASSIC
        )
        await when_durable(added, call)
    return AddOffsetsToTxnResponse()
