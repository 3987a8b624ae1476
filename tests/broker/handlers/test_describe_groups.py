"""DescribeGroups over the wire."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_groups import DescribeGroupsRequest
from headrace.testing.wire import Wire
from tests.broker.group_requests import commit, join, stable_member, subscription
from tests.broker.requests import new_name

NOT_REQUESTED = -(2**31)


@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_shows_its_members(wire: Wire, version: int) -> None:
    member = stable_member(wire, new_name(), "a", group_instance_id="static")
    (group,) = wire.request(DescribeGroupsRequest(groups=(member.group,)), version=version).groups
    assert (group.error_code, group.group_state) == (0, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (one,) = group.members
    assert (one.member_id, one.client_id, one.client_host) == (member.member_id, "wire", "/127.0.0.1")
    assert (one.member_metadata, one.member_assignment) == (subscription("a"), b"all")
    assert one.group_instance_id == ("static" if version >= 4 else None)


def test_between_generations_no_assignment_is_shown(wire: Wire) -> None:
    member = join(wire, new_name(), "a")
    (group,) = wire.request(DescribeGroupsRequest(groups=(member.group,))).groups
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert (group.members[0].member_metadata, group.members[0].member_assignment) == (b"", b"")


def test_a_group_that_only_commits_is_empty(wire: Wire, topic: str) -> None:
    group = new_name()
    commit(wire, group, topic, 1)
    (found,) = wire.request(DescribeGroupsRequest(groups=(group,))).groups
    assert (found.group_state, found.protocol_type, found.members) == ("Empty", "", ())


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_missing_group_is_dead(wire: Wire, version: int, error: ErrorCode) -> None:
    (found,) = wire.request(DescribeGroupsRequest(groups=("missing",)), version=version).groups
    assert (found.group_state, found.error_code) == ("Dead", error)
    assert found.error_message == ("Group missing not found." if version >= 6 else None)


def test_authorized_operations_are_returned_on_request(wire: Wire) -> None:
    group = stable_member(wire, new_name()).group
    requested = DescribeGroupsRequest(groups=(group,), include_authorized_operations=True)
    assert wire.request(requested).groups[0].authorized_operations == 0b1101_0100_1000
    assert (
        wire.request(DescribeGroupsRequest(groups=(group,))).groups[0].authorized_operations == NOT_REQUESTED
    )


def test_missing_group_has_no_authorized_operations(wire: Wire) -> None:
    requested = DescribeGroupsRequest(groups=("missing",), include_authorized_operations=True)
    assert wire.request(requested).groups[0].authorized_operations == NOT_REQUESTED
