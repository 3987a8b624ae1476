"""DescribeShareGroupOffsets over the wire."""

from __future__ import annotations

import pytest

from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from headrace.testing.wire import Wire
from tests.broker.requests import new_name
from tests.broker.share_offset_requests import Consumed


@pytest.fixture
def consumed(wire: Wire) -> Consumed:
    return Consumed(wire)


@pytest.mark.parametrize("version", [0, 1])
def test_offset_and_lag_are_described(wire: Wire, consumed: Consumed, version: int) -> None:
    requested = DescribeShareGroupOffsetsRequestTopic(topic_name=consumed.topic, partitions=(0, 1))
    group = DescribeShareGroupOffsetsRequestGroup(group_id=consumed.group, topics=(requested,))
    response = wire.request(DescribeShareGroupOffsetsRequest(groups=(group,)), version=version)
    (topic,) = response.groups[0].topics
    known, unknown = topic.partitions
    assert (known.start_offset, known.lag if version else 5) == (5, 5)
    assert (unknown.start_offset, unknown.error_code) == (-1, 0)


def test_missing_group_or_topic_has_no_offset(any_wire: Wire, any_topic: str, any_group: str) -> None:
    requested = DescribeShareGroupOffsetsRequestTopic(topic_name=any_topic, partitions=(0, 9))
    nowhere = DescribeShareGroupOffsetsRequestTopic(topic_name=new_name(), partitions=(0,))
    for topics, found in ((None, ()), ((requested, nowhere), (-1, -1, -1))):
        group = DescribeShareGroupOffsetsRequestGroup(group_id=any_group, topics=topics)
        (response,) = any_wire.request(DescribeShareGroupOffsetsRequest(groups=(group,))).groups
        assert response.error_code == 0
        parts = [part for topic in response.topics for part in topic.partitions]
        assert tuple(part.start_offset for part in parts) == found
        assert all(part.error_code == 0 for part in parts)
