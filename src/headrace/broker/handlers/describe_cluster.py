"""DescribeCluster: this broker, which is also the controller."""

from __future__ import annotations

from headrace.broker.authorized_operations import CLUSTER_OPERATIONS_ALL, NOT_REQUESTED
from headrace.broker.dispatch import Call, handles
from headrace.broker.endpoint import endpoint_for
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1


@handles(ApiKey.DESCRIBE_CLUSTER, versions=(0, 2))
def describe_cluster(request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="this is a broker, not a controller; request the brokers instead",
            endpoint_type=request.endpoint_type,
        )
    endpoint = endpoint_for(call.client, call.parts.settings)
    return DescribeClusterResponse(
        cluster_id=call.parts.cluster_id,
        controller_id=endpoint.node_id,
        brokers=(DescribeClusterBroker(broker_id=endpoint.node_id, host=endpoint.host, port=endpoint.port),),
        cluster_authorized_operations=CLUSTER_OPERATIONS_ALL
        if request.include_cluster_authorized_operations
        else NOT_REQUESTED,
    )
