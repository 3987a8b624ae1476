"""UnregisterBroker: always an error, because the only broker is running."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@handles(ApiKey.UNREGISTER_BROKER, versions=(0, 0))
def unregister_broker(request: UnregisterBrokerRequest, call: Call) -> UnregisterBrokerResponse:
    if request.broker_id == call.parts.settings.node_id:
        raise RequestRejected(
            ErrorCode.INVALID_REQUEST, f"broker {request.broker_id} is running; stop it instead"
        )
    raise RequestRejected(
        ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {request.broker_id} is not currently registered"
    )
