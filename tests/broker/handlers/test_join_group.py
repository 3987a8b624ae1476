"""JoinGroup over the wire; the rules themselves are tested in groups/test_classic.py."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.group_requests import heartbeat, join_request, stable_member, subscription
from tests.broker.requests import new_name


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_a_first_join_gets_the_group(wire: Wire, version: int) -> None:
    response = wire.request(join_request(new_name(), "", "a"), version=version)
    assert (response.error_code, response.generation_id, response.protocol_name) == (0, 1, "range")
    assert response.leader == response.member_id
    assert response.member_id.startswith("wire-")
    assert [(m.member_id, m.metadata) for m in response.members] == [(response.member_id, subscription("a"))]


@pytest.mark.parametrize("version", range(4, 10))
def test_since_version_4_a_first_join_gets_an_id(wire: Wire, version: int) -> None:
    group = new_name()
    first = wire.request(join_request(group), version=version)
    assert (first.error_code, first.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    second = wire.request(join_request(group, first.member_id), version=version)
    assert (second.error_code, second.member_id, second.leader) == (0, first.member_id, first.member_id)
    assert second.protocol_type == ("consumer" if version >= 7 else None)


@pytest.mark.parametrize("version", [0, 6, 9])
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "missing"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_invalid_join_is_rejected(
    wire: Wire, version: int, changes: dict[str, Any], error: ErrorCode
) -> None:
    response = wire.request(join_request(new_name(), **changes), version=version)
    assert (response.error_code, response.generation_id) == (error, -1)


def test_a_second_member_waits_until_the_first_has_rejoined(
    headrace_broker: Broker, connect: Connect
) -> None:
    group = new_name()
    one, two = connect(headrace_broker), connect(headrace_broker)
    first = stable_member(one, group)
    two.send(join_request(group), version=3)
    assert not two.has_response(within_s=0.2)
    assert heartbeat(one, first) is ErrorCode.REBALANCE_IN_PROGRESS
    leading = one.request(join_request(group, first.member_id))
    following = two.receive()
    assert (leading.generation_id, following.generation_id) == (2, 2)
    assert leading.leader == following.leader == first.member_id
    assert (len(leading.members), len(following.members)) == (2, 0)


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_leader_returns_without_a_rebalance(wire: Wire, version: int) -> None:
    group = new_name()
    before = stable_member(wire, group, group_instance_id="static")
    after = wire.request(join_request(group, group_instance_id="static"), version=version)
    assert (after.error_code, after.generation_id) == (0, before.generation)
    assert after.member_id != before.member_id
    assert after.skip_assignment is (version >= 9)
    assert heartbeat(wire, before, group_instance_id="static") is ErrorCode.FENCED_INSTANCE_ID


def test_member_without_a_connection_is_removed_after_its_session(
    connect: Connect, start_broker: StartBroker
) -> None:
    broker = start_broker(durability="os", group_session_timeout_ms_min=100)
    group = new_name()
    closed, open = connect(broker), connect(broker)
    stable_member(closed, group, session_timeout_ms=300)
    closed.close()
    response = open.request(join_request(group), version=3)
    assert (response.error_code, len(response.members)) == (0, 1)


def test_waiting_join_gets_a_response_when_the_broker_stops(
    connect: Connect, start_broker: StartBroker
) -> None:
    broker = start_broker(durability="os")
    group = new_name()
    one, two = connect(broker), connect(broker)
    member = stable_member(one, group)
    two.send(join_request(group), version=3)
    while heartbeat(one, member) is not ErrorCode.REBALANCE_IN_PROGRESS:
        pass  # until the second join has arrived
    broker.stop()
    assert two.receive().error_code == ErrorCode.NOT_COORDINATOR
