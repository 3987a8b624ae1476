"""Members of the classic protocol in a group of the newer one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headrace.broker.groups import consumer_classic
from headrace.broker.groups.consumer_step import ConsumerStep
from headrace.broker.groups.events import Join
from headrace.broker.groups.state import MemberProtocol
from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.broker.groups.consumer_simulation import ClassicClient, Client, Coordinator, SomeTopics
from tests.broker.groups.simulation import offers, sync_request


def newer_and_classic(*, is_eager: bool) -> tuple[Coordinator, Client, ClassicClient]:
    coordinator = Coordinator(SomeTopics(a=4))
    newer = Client(coordinator=coordinator, member_id="newer", topics=("a",))
    assert newer.beat() is ErrorCode.NONE
    classic = ClassicClient(coordinator=coordinator, member_id="classic", topics=("a",), is_eager=is_eager)
    classic.rejoin()
    return coordinator, newer, classic


@pytest.mark.parametrize("is_eager", [True, False])
def test_partitions_are_divided_between_members_of_both_protocols(is_eager: bool) -> None:
    coordinator, newer, classic = newer_and_classic(is_eager=is_eager)
    for _ in range(4):
        newer.beat()
        newer.revoke()
        classic.beat()
    assert (len(newer.owned), len(classic.owned)) == (2, 2)
    assert newer.owned | classic.owned == coordinator.topics.places(["a"])
    assert classic.beat() is ErrorCode.NONE


def test_heartbeat_requests_a_member_to_rejoin_when_the_group_has_changed() -> None:
    coordinator, newer, classic = newer_and_classic(is_eager=True)
    newer.leave()
    assert classic.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert classic.owned == coordinator.topics.places(["a"])


def remove(
    coordinator: Coordinator, member_id: str, instance_id: str | None = None
) -> tuple[ErrorCode, bool]:
    """The error, and whether the group becomes a classic one."""
    leaving = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
    request = LeaveGroupRequest(group_id="g", members=(leaving,))

    def act(step: ConsumerStep) -> tuple[ErrorCode, bool]:
        [result] = consumer_classic.leave(step, request).members
        return ErrorCode(result.error_code), step.becomes_classic

    return coordinator.run(act)


def test_group_becomes_classic_when_its_last_newer_member_is_removed() -> None:
    coordinator, _, _ = newer_and_classic(is_eager=True)
    assert remove(coordinator, "stranger") == (ErrorCode.UNKNOWN_MEMBER_ID, False)
    assert remove(coordinator, "newer") == (ErrorCode.NONE, True)


def test_static_member_is_removed_by_its_instance_and_an_old_id_is_fenced() -> None:
    coordinator, _, _ = newer_and_classic(is_eager=True)
    static = replace(JOIN, instance_id="i", needs_known_id=False)
    joined = coordinator.run(lambda step: consumer_classic.join(step, static))
    assert joined.error_code == ErrorCode.NONE
    assert remove(coordinator, "old", "i") == (ErrorCode.FENCED_INSTANCE_ID, False)
    assert remove(coordinator, "", "other") == (ErrorCode.UNKNOWN_MEMBER_ID, False)
    assert remove(coordinator, "", "i") == (ErrorCode.NONE, False)
    assert joined.member_id not in coordinator.group.members


JOIN = Join(
    member_id="",
    new_member_id="made-up",
    instance_id=None,
    client_id="c",
    client_host="/h",
    session_timeout_ms=1,
    rebalance_timeout_ms=1,
    protocol_type="consumer",
    protocols=offers("some", metadata=b"\0\0" + bytes(8)),
    needs_known_id=True,
    can_skip_assignment=True,
)


def test_first_join_gets_an_id_and_changes_nothing() -> None:
    coordinator, _, _ = newer_and_classic(is_eager=True)
    before = dict(coordinator.group.members)
    response = coordinator.run(lambda step: consumer_classic.join(step, JOIN))
    assert (response.error_code, response.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "made-up")
    assert coordinator.group.members == before


@pytest.mark.parametrize(
    "join",
    [
        replace(JOIN, protocol_type="connect"),
        replace(JOIN, protocols=offers("another")),
        replace(JOIN, member_id="m", protocols=(MemberProtocol(name="some", metadata=b"\0"),)),
    ],
    ids=["other members than consumers", "no protocol in common", "damaged subscription"],
)
def test_member_that_does_not_fit_is_rejected(join: Join) -> None:
    coordinator, _, _ = newer_and_classic(is_eager=True)
    with pytest.raises(RequestRejected) as rejected:
        coordinator.run(lambda step: consumer_classic.join(step, join))
    assert rejected.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_request_of_another_generation_is_rejected() -> None:
    coordinator, _, classic = newer_and_classic(is_eager=True)
    generation = classic.epoch - 1
    sync = sync_request("classic", generation, {})
    beat = HeartbeatRequest(group_id="g", member_id="classic", generation_id=generation)
    with pytest.raises(RequestRejected) as rejected_sync:
        coordinator.run(lambda step: consumer_classic.sync(step, sync))
    with pytest.raises(RequestRejected) as rejected_beat:
        coordinator.run(lambda step: consumer_classic.heartbeat(step, beat))
    assert rejected_sync.value.code is rejected_beat.value.code is ErrorCode.ILLEGAL_GENERATION
