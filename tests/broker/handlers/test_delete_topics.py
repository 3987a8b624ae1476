"""DeleteTopics over the wire."""

from __future__ import annotations

import uuid

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.testing.wire import Wire
from tests.broker.requests import batch, create_topic, new_name, produce


@pytest.mark.parametrize("version", range(1, 7))
def test_topic_is_unknown_afterwards(wire: Wire, topic: str, version: int) -> None:
    request = (
        DeleteTopicsRequest(topics=(DeleteTopicState(name=topic),))
        if version >= 6
        else DeleteTopicsRequest(topic_names=(topic,))
    )
    (deleted,) = wire.request(request, version=version).responses
    assert (deleted.name, deleted.error_code) == (topic, 0)
    (again,) = wire.request(request, version=version).responses
    assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(wire, topic, batch(b"a")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topic_is_deleted_by_its_id(wire: Wire) -> None:
    name = new_name()
    topic_id = create_topic(wire, name)
    known, unknown = DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=uuid.uuid4())
    responses = wire.request(DeleteTopicsRequest(topics=(known, unknown))).responses
    assert [(one.name, one.error_code) for one in responses] == [
        (name, 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_internal_topic_is_rejected(wire: Wire) -> None:
    from tests.broker.group_requests import commit

    topic = new_name()
    create_topic(wire, topic)
    commit(wire, new_name("g"), topic, 1)
    requested = DeleteTopicsRequest(topics=(DeleteTopicState(name="__consumer_offsets"),))
    (response,) = wire.request(requested).responses
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert "internal" in (response.error_message or "")
