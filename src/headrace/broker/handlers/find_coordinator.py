"""FindCoordinator: this broker is the coordinator of every group and transaction.

As in Kafka, this creates the topic in which the coordinator stores its state: a tool that requests it next finds it.

1: transactions. 4: many keys in one request. 6: states of share groups, which only Kafka's own brokers request.
"""

from __future__ import annotations

import logging

from headrace.broker.dispatch import Call, handles
from headrace.broker.endpoint import endpoint_for
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.transactions.storage import TRANSACTIONS_TOPIC
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

logger = logging.getLogger(__name__)

STATE_TOPICS = {0: OFFSETS_TOPIC, 1: TRANSACTIONS_TOPIC}
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
    if key_type not in STATE_TOPICS:
        return Coordinator(
            key=key,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"keys of type {key_type} have no coordinator",
        )
    try:
        call.parts.topics.internal(STATE_TOPICS[key_type])
    except (HeadraceError, OSError) as error:
        logger.error("topic of a coordinator not created", extra={"reason": str(error)})
        return Coordinator(key=key, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=str(error))
    endpoint = endpoint_for(call.client, call.parts.settings)
    return Coordinator(key=key, node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port)
