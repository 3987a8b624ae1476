"""DeleteGroups over the wire."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_groups import DeleteGroupsRequest
from headrace.protocol.messages.describe_groups import DescribeGroupsRequest
from headrace.testing.wire import Wire
from tests.broker.group_requests import commit, committed, stable_member
from tests.broker.requests import new_name


@pytest.mark.parametrize("version", range(3))
def test_empty_groups_are_deleted_with_their_offsets_and_others_stay(
    wire: Wire, topic: str, version: int
) -> None:
    simple, live, unknown = new_name(), stable_member(wire, new_name()).group, new_name()
    commit(wire, simple, topic, 5)
    response = wire.request(DeleteGroupsRequest(groups_names=(simple, live, unknown)), version=version)
    assert {one.group_id: ErrorCode(one.error_code) for one in response.results} == {
        simple: ErrorCode.NONE,
        live: ErrorCode.NON_EMPTY_GROUP,
        unknown: ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert committed(wire, simple, topic) == -1
    described = wire.request(DescribeGroupsRequest(groups=(simple, live))).groups
    assert {one.group_id: one.group_state for one in described} == {simple: "Dead", live: "Stable"}
