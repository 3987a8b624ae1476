"""FindCoordinator: one broker coordinates everything, so the answer is always this one.

1: transactions. 4: many keys in one request. 6: share groups, which are not served yet.
"""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP_KEY = 0
TRANSACTION_KEY = 1
BATCHED_SINCE = 4


@handles(ApiKey.FIND_COORDINATOR, versions=(0, 6))
def find_coordinator(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    if call.version >= BATCHED_SINCE:
        found = tuple(_find(key, request.key_type, call) for key in request.coordinator_keys)
        return FindCoordinatorResponse(coordinators=found)
    coordinator = _find(request.key, request.key_type, call)
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _find(key: str, key_type: int, call: Call) -> Coordinator:
    if key_type not in (GROUP_KEY, TRANSACTION_KEY):
        return Coordinator(
            key=key,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"there is no coordinator for keys of type {key_type}",
        )
    endpoint = call.services.advertised(call.client)
    return Coordinator(key=key, node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port)
