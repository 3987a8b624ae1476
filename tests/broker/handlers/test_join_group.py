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
def test_before_version_4_a_first_join_is_answered_with_the_group(wire: Wire, version: int) -> None:
    answer = wire.ask(join_request(new_name(), "", "a"), version=version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("wire-")
    assert [(m.member_id, m.metadata) for m in answer.members] == [(answer.member_id, subscription("a"))]


@pytest.mark.parametrize("version", range(4, 10))
def test_since_version_4_a_first_join_is_given_an_id(wire: Wire, version: int) -> None:
    group = new_name()
    first = wire.ask(join_request(group), version=version)
    assert (first.error_code, first.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    second = wire.ask(join_request(group, first.member_id), version=version)
    assert (second.error_code, second.member_id, second.leader) == (0, first.member_id, first.member_id)
    assert second.protocol_type == ("consumer" if version >= 7 else None)


@pytest.mark.parametrize("version", [0, 6, 9])
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_join_that_cannot_be_is_refused(
    wire: Wire, version: int, changes: dict[str, Any], error: ErrorCode
) -> None:
    answer = wire.ask(join_request(new_name(), **changes), version=version)
    assert (answer.error_code, answer.generation_id) == (error, -1)


def test_a_second_member_waits_until_the_first_has_rejoined(
    headrace_broker: Broker, connect: Connect
) -> None:
    group = new_name()
    one, two = connect(headrace_broker), connect(headrace_broker)
    first = stable_member(one, group)
    two.send(join_request(group), version=3)
    assert not two.has_response(within_s=0.2)
    assert heartbeat(one, first) is ErrorCode.REBALANCE_IN_PROGRESS
    leading = one.ask(join_request(group, first.member_id))
    following = two.receive()
    assert (leading.generation_id, following.generation_id) == (2, 2)
    assert leading.leader == following.leader == first.member_id
    assert (len(leading.members), len(following.members)) == (2, 0)


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_leader_returns_without_a_rebalance(wire: Wire, version: int) -> None:
    group = new_name()
    before = stable_member(wire, group, group_instance_id="static")
    after = wire.ask(join_request(group, group_instance_id="static"), version=version)
    assert (after.error_code, after.generation_id) == (0, before.generation)
    assert after.member_id != before.member_id
    assert after.skip_assignment is (version >= 9)
    assert heartbeat(wire, before, group_instance_id="static") is ErrorCode.FENCED_INSTANCE_ID


def test_a_member_whose_connection_is_gone_is_waited_for_no_longer_than_its_session(
    connect: Connect, start_broker: StartBroker
) -> None:
    broker = start_broker(durability="os", group_session_timeout_ms_min=100)
    group = new_name()
    gone, here = connect(broker), connect(broker)
    stable_member(gone, group, session_timeout_ms=300)
    gone.close()
    answer = here.ask(join_request(group), version=3)
    assert (answer.error_code, len(answer.members)) == (0, 1)


def test_a_join_that_waits_when_the_broker_stops_is_answered(
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
