"""InitProducerId: an id and an epoch for an idempotent producer, or for an instance of a transactional one.

3: a producer with an id requests its next epoch. 4: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from headrace.broker.dispatch import Call, handles
from headrace.broker.handlers.add_partitions_to_txn import fencing_as_known
from headrace.broker.rejections import RequestRejected
from headrace.broker.transactions.state import NO_EPOCH, Producer
from headrace.log.errors import StorageFailed
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.records.batch import NO_PRODUCER_ID

logger = logging.getLogger(__name__)

FENCED_SINCE = 4


@handles(ApiKey.INIT_PRODUCER_ID, versions=(0, 5))
def init_producer_id(
    request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if request.transactional_id is None:
        return _idempotent(call)
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_EPOCH
    if not request.transactional_id or has_id != has_epoch:
        raise RequestRejected(ErrorCode.INVALID_REQUEST)
    expected = Producer(id=request.producer_id, epoch=request.producer_epoch) if has_id else None
    with fencing_as_known(call, since=FENCED_SINCE):
        storing = call.parts.transactions.init_producer(
            request.transactional_id, timeout_ms=request.transaction_timeout_ms, expected=expected
        )
    return _when_stored(storing, call)


def _idempotent(call: Call) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=call.parts.producer_ids.allocate(), producer_epoch=0)
    except StorageFailed as failure:
        repeated = call.parts.log_throttle.suppressed(call.parts.runtime.clock.monotonic_s(), "producer id")
        if repeated is not None:
            logger.error("no producer id: %s", failure, extra={"repeated": repeated})
        raise RequestRejected(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from failure


async def _when_stored(storing: Awaitable[Producer], call: Call) -> InitProducerIdResponse:
    with fencing_as_known(call, since=FENCED_SINCE):
        producer = await storing
    return InitProducerIdResponse(producer_id=producer.id, producer_epoch=producer.epoch)
