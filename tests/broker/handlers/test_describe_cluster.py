"""DescribeCluster over the wire."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_cluster import DescribeClusterRequest
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.testing.wire import Wire

CONTROLLERS = 2


@pytest.mark.parametrize("version", range(3))
def test_cluster_and_broker_are_those_of_metadata(any_wire: Wire, version: int) -> None:
    response = any_wire.request(DescribeClusterRequest(), version=version)
    metadata = any_wire.request(MetadataRequest(topics=()))
    assert response.cluster_id == metadata.cluster_id
    assert [(one.broker_id, one.host, one.port) for one in response.brokers] == [
        (one.node_id, one.host, one.port) for one in metadata.brokers
    ]


def test_request_for_controllers_is_rejected(wire: Wire) -> None:
    response = wire.request(DescribeClusterRequest(endpoint_type=CONTROLLERS))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert "request the brokers" in (response.error_message or "")
