"""DescribeCluster: the brokers, the controller and the id of the cluster.

1: brokers or controllers.
2: fenced brokers, if requested.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int8, Int16, Int32, NullableString, String, message, since


@message(ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), flexible_since=0)
class DescribeClusterRequest(Struct, frozen=True, kw_only=True):
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, since(1)] = 1
    include_fenced_brokers: Annotated[Bool, since(2)] = False


class DescribeClusterBroker(Struct, frozen=True, kw_only=True):
    broker_id: Int32
    host: String
    port: Int32
    rack: NullableString = None
    is_fenced: Annotated[Bool, since(2)] = False


@message(ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), flexible_since=0)
class DescribeClusterResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    endpoint_type: Annotated[Int8, since(1)] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = -(2**31)
