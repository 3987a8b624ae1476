"""InitProducerId: an id and an epoch for an idempotent producer, or for an instance of a transactional one.

3: a producer with an id requests its next epoch. 4: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from headrace.broker.dispatch import Call, handles
from headrace.broker.refusals import RequestRefused
from headrace.broker.transactions.state import NO_EPOCH, NO_PRODUCER_ID, Producer
from headrace.log.errors import StorageFailed
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

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
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST)
    expected = Producer(id=request.producer_id, epoch=request.producer_epoch) if has_id else None
    try:
        storing = call.parts.transactions.init_producer(
            request.transactional_id, timeout_ms=request.transaction_timeout_ms, expected=expected
        )
    except RequestRefused as refused:
        return InitProducerIdResponse(error_code=_code_for(refused.code, call))
    return _when_stored(storing, call)


def _idempotent(call: Call) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=call.parts.producer_ids.allocate(), producer_epoch=0)
    except StorageFailed as failure:
        repeated = call.parts.log_throttle.suppressed(call.parts.runtime.clock.monotonic_s(), "producer id")
        if repeated is not None:
            logger.error("no producer id: %s", failure, extra={"repeated": repeated})
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


async def _when_stored(storing: Awaitable[Producer], call: Call) -> InitProducerIdResponse:
    try:
        producer = await storing
    except RequestRefused as refused:
        return InitProducerIdResponse(error_code=_code_for(refused.code, call))
    return InitProducerIdResponse(producer_id=producer.id, producer_epoch=producer.epoch)


def _code_for(code: ErrorCode, call: Call) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and call.version < FENCED_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
