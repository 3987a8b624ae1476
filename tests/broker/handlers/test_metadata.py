"""Metadata over the wire."""

from __future__ import annotations

import uuid

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.requests import create_topic, new_name


@pytest.mark.parametrize("version", range(14))
def test_topic_has_its_partitions_and_their_leader(wire: Wire, headrace_broker: Broker, version: int) -> None:
    name = new_name()
    create_topic(wire, name, partitions=2)
    response = wire.request(MetadataRequest(topics=(MetadataRequestTopic(name=name),)), version=version)
    (broker,) = response.brokers
    assert f"{broker.host}:{broker.port}" == headrace_broker.bootstrap
    (topic,) = response.topics
    assert (topic.name, topic.error_code) == (name, 0)
    assert [(part.partition_index, part.leader_id) for part in topic.partitions] == [
        (0, broker.node_id),
        (1, broker.node_id),
    ]


def test_all_topics_are_listed_if_none_is_named(wire: Wire, topic: str) -> None:
    names = {one.name for one in wire.request(MetadataRequest(topics=None)).topics}
    assert topic in names
    assert wire.request(MetadataRequest(topics=())).topics == ()
    assert topic in {one.name for one in wire.request(MetadataRequest(topics=()), version=0).topics}


def test_topic_is_found_by_its_id(wire: Wire) -> None:
    name = new_name()
    topic_id = create_topic(wire, name)
    requested = (MetadataRequestTopic(topic_id=topic_id, name=None),)
    (topic,) = wire.request(MetadataRequest(topics=requested), version=12).topics
    assert (topic.name, topic.topic_id) == (name, topic_id)
    unknown = (MetadataRequestTopic(topic_id=uuid.uuid4(), name=None),)
    (topic,) = wire.request(MetadataRequest(topics=unknown), version=12).topics
    assert (topic.name, topic.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


def test_unknown_topic_is_not_created_unless_client_and_broker_allow_it(
    wire: Wire, start_broker: StartBroker, connect: Connect
) -> None:
    requested = (MetadataRequestTopic(name=new_name()),)
    (topic,) = wire.request(MetadataRequest(topics=requested, allow_auto_topic_creation=False)).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (topic,) = wire.request(MetadataRequest(topics=requested)).topics
    assert (topic.error_code, len(topic.partitions)) == (0, 1)
    strict = connect(start_broker(auto_create_topics=False))
    (topic,) = strict.request(MetadataRequest(topics=requested)).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_request_for_many_topics_describes_them_in_order(wire: Wire) -> None:
    names = [new_name() for _ in range(30)]
    requested = tuple(MetadataRequestTopic(name=name) for name in names)
    assert [one.name for one in wire.request(MetadataRequest(topics=requested)).topics] == names
