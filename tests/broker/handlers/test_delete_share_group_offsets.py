"""DeleteShareGroupOffsets over the wire."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.testing.wire import Wire
from tests.broker.share_offset_requests import Consumed
from tests.broker.share_requests import ShareMember, group_offset, heartbeat


@pytest.fixture
def consumed(wire: Wire) -> Consumed:
    return Consumed(wire)


def test_deleted_offsets_are_not_described(consumed: Consumed) -> None:
    assert consumed.delete() is ErrorCode.NONE
    assert group_offset(consumed.wire, consumed.group) is None
    assert ShareMember(consumed.wire, consumed.group, consumed.topic_id).offsets() == [*range(10)]


def test_group_with_members_keeps_its_offsets(consumed: Consumed) -> None:
    heartbeat(consumed.wire, consumed.group, "a", 0, consumed.topic)
    assert consumed.delete() is ErrorCode.NON_EMPTY_GROUP
    found = group_offset(consumed.wire, consumed.group)
    assert found is not None
    assert found.start_offset == 5


def test_unknown_topic_is_rejected(consumed: Consumed) -> None:
    assert consumed.delete(topic="nothing") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
