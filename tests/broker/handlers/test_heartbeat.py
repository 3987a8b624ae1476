"""Heartbeat over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.testing.wire import Wire
from tests.broker.group_requests import heartbeat, stable_member
from tests.broker.requests import new_name


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_of_the_generation_is_accepted(wire: Wire, version: int) -> None:
    assert heartbeat(wire, stable_member(wire, new_name()), version=version) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "missing-group"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "missing"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 77}, ErrorCode.ILLEGAL_GENERATION),
        ({"group_instance_id": "missing"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_other_heartbeat_is_rejected_with_its_error(
    wire: Wire, changes: dict[str, Any], error: ErrorCode
) -> None:
    assert heartbeat(wire, stable_member(wire, new_name()), **changes) is error
