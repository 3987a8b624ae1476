"""ShareAcknowledge over the wire: the types of acknowledgement, and when one is rejected."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.testing.wire import Wire
from tests.broker.requests import batch, create_topic, new_name, produce
from tests.broker.share_requests import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    WAIT_MS,
    ShareMember,
    group_offset,
    set_group_configs,
)


@pytest.fixture
def member(wire: Wire, topic: str) -> ShareMember:
    """It holds ten records, 0 to 9."""
    topic_id = create_topic(wire, topic)
    group = new_name("g")
    set_group_configs(wire, group, share_auto_offset_reset="earliest")
    produce(wire, topic, batch(*(str(number).encode() for number in range(10))))
    made = ShareMember(wire, group, topic_id)
    assert made.offsets() == [*range(10)]
    return made


@pytest.fixture
def topic() -> str:
    return new_name()


def start_of(member: ShareMember) -> int:
    offset = group_offset(member.wire, member.group)
    assert offset is not None
    return offset.start_offset


@pytest.mark.parametrize("version", [1, 2])
def test_accepted_records_are_not_redelivered(member: ShareMember, version: int) -> None:
    member.version = version
    assert member.acknowledge((0, 9, ACCEPT)) is ErrorCode.NONE
    assert start_of(member) == 10


def test_every_offset_has_its_own_type(member: ShareMember) -> None:
    kinds = (ACCEPT, ACCEPT, RELEASE, REJECT, GAP, RELEASE, ACCEPT, ACCEPT, ACCEPT, ACCEPT)
    assert member.acknowledge((0, 9, kinds)) is ErrorCode.NONE
    assert member.offsets() == [2, 5]
    assert member.held == [(2, 2, 2), (5, 5, 2)]


def test_rejected_record_is_not_redelivered(member: ShareMember) -> None:
    assert member.acknowledge((0, 0, REJECT), (1, 9, RELEASE)) is ErrorCode.NONE
    assert member.offsets() == [*range(1, 10)]


def test_acknowledgement_of_another_member_is_rejected(member: ShareMember) -> None:
    thief = ShareMember(member.wire, member.group, member.topic_id)
    thief.offsets()
    assert thief.acknowledge((0, 9, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
    assert member.acknowledge((0, 9, ACCEPT)) is ErrorCode.NONE


def test_second_acknowledgement_is_rejected(member: ShareMember) -> None:
    assert member.acknowledge((0, 0, ACCEPT)) is ErrorCode.NONE
    assert member.acknowledge((0, 0, RELEASE)) is ErrorCode.INVALID_RECORD_STATE


def test_renewed_lock_outlives_the_first(member: ShareMember) -> None:
    """Both are renewed until the lock of the third has timed out and its record was delivered to another member."""
    set_group_configs(member.wire, member.group, share_record_lock_duration_ms=300)
    assert member.acknowledge((0, 9, RELEASE)) is ErrorCode.NONE
    assert member.offsets() == [*range(10)]
    other = ShareMember(member.wire, member.group, member.topic_id)
    delivered: list[int] = []
    while not delivered:
        assert member.acknowledge((0, 4, RENEW), is_renew_ack=True) is ErrorCode.NONE
        delivered = other.offsets(max_wait_ms=50)
    assert delivered == [*range(5, 10)]
    assert member.acknowledge((0, 4, ACCEPT)) is ErrorCode.NONE


def test_renewal_is_rejected_if_the_group_or_the_version_does_not_allow_it(member: ShareMember) -> None:
    member.version = 1
    assert member.acknowledge((0, 0, RENEW)) is ErrorCode.INVALID_REQUEST
    member.version = 2
    set_group_configs(member.wire, member.group, share_renew_acknowledge_enable="false")
    assert member.acknowledge((0, 0, RENEW)) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "wrong",
    [
        ((0, 4, (ACCEPT, ACCEPT)),),
        ((4, 0, ACCEPT),),
        ((0, 0, 9),),
        ((5, 6, ACCEPT), (0, 1, ACCEPT)),
        ((0, 1, ()),),
    ],
)
def test_invalid_request_is_rejected_and_changes_nothing(
    member: ShareMember, wrong: tuple[tuple[int, int, int], ...]
) -> None:
    assert member.acknowledge(*wrong) is ErrorCode.INVALID_REQUEST
    assert member.acknowledge((0, 9, ACCEPT)) is ErrorCode.NONE


def test_missing_session_is_rejected(member: ShareMember) -> None:
    assert member.acknowledge((0, 0, ACCEPT), share_session_epoch=0) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge((0, 0, ACCEPT), share_session_epoch=7) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge((0, 0, ACCEPT), member_id="who") is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_closing_a_session_releases_its_records(member: ShareMember) -> None:
    assert member.acknowledge((0, 4, ACCEPT), share_session_epoch=-1) is ErrorCode.NONE
    other = ShareMember(member.wire, member.group, member.topic_id)
    assert other.offsets() == [*range(5, 10)]
    assert member.close() is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_record_past_its_delivery_limit_is_dropped(member: ShareMember) -> None:
    set_group_configs(member.wire, member.group, share_delivery_count_limit=2)
    assert member.acknowledge((0, 9, RELEASE)) is ErrorCode.NONE
    assert member.offsets(max_wait_ms=WAIT_MS) == [*range(10)]
    assert member.acknowledge((0, 9, RELEASE)) is ErrorCode.NONE
    assert member.offsets() == []
    assert start_of(member) == 10
