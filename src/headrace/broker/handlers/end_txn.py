"""EndTxn: commit or abort a transaction. The response waits for the durable decision and for every marker.

2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH. 5: every transaction ends an epoch; the response has the next one.
"""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.handlers.add_partitions_to_txn import fencing_as_known
from headrace.broker.transactions.state import ClientVersion, Producer
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE = 2
EPOCH_BUMPS_SINCE = 5


@handles(ApiKey.END_TXN, versions=(0, 5))
async def end_txn(request: EndTxnRequest, call: Call) -> EndTxnResponse:
    bumps = call.version >= EPOCH_BUMPS_SINCE
    with fencing_as_known(call, since=FENCED_SINCE):
        producer = await call.parts.transactions.end(
            request.transactional_id,
            Producer(id=request.producer_id, epoch=request.producer_epoch),
            is_commit=request.committed,
            client_version=ClientVersion.EPOCH_BUMPS if bumps else ClientVersion.CLASSIC,
        )
    return EndTxnResponse(producer_id=producer.id, producer_epoch=producer.epoch)
