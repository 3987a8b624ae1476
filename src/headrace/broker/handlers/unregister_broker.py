"""UnregisterBroker: always an error, because the only broker is running."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@handles(ApiKey.UNREGISTER_BROKER, versions=(0, 0))
def unregister_broker(request: UnregisterBrokerRequest, call: Call) -> UnregisterBrokerResponse:
    if request.broker_id == call.parts.settings.node_id:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"broker {request.broker_id} is running; stop it instead",
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker ID {request.broker_id} is not currently registered",
    )
