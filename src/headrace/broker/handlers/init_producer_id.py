"""InitProducerId: an id for an idempotent producer."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


@handles(ApiKey.INIT_PRODUCER_ID, versions=(0, 5))
def init_producer_id(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        # Transactions are not served yet; a client that retried would wait for ever.
        return InitProducerIdResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return InitProducerIdResponse(producer_id=call.services.producer_ids.allocate(), producer_epoch=0)
