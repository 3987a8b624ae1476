"""Which committed offsets have been kept long enough."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.broker.groups.offsets import CommittedOffset, Offsets, TopicPartition, expired
from headrace.broker.groups.state import Group, GroupState, Member
from tests.broker.groups.simulation import offers
from tests.broker.groups.test_consumer_embedded import subscription

RETENTION_MS = 1_000
COMMITTED_MS = 10_000
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def committed(**changes: Any) -> CommittedOffset:
    fields = {"offset": 5, "leader_epoch": -1, "metadata": "", "committed_at_ms": COMMITTED_MS, **changes}
    return CommittedOffset(**fields)


def expired_in(group: Group, now_ms: int, **offset: Any) -> list[TopicPartition]:
    offsets = {name: committed(**offset) for name in (A0, A1, B0)}
    return expired(group, offsets, now_ms=now_ms, retention_ms=RETENTION_MS)


def stable(*topics: str, protocol_type: str = "consumer") -> Group:
    member = Member(
        member_id="m",
        instance_id=None,
        client_id="",
        client_host="",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocols=offers("range", metadata=subscription(*topics)),
    )
    return Group(
        group_id="g",
        state=GroupState.STABLE,
        protocol_type=protocol_type,
        protocol_name="range",
        leader_id="m",
    ).put(member)


def test_without_members_ever_the_commit_counts() -> None:
    simple = Group(group_id="g", state_since_ms=0)
    assert expired_in(simple, COMMITTED_MS + RETENTION_MS - 1) == []
    assert expired_in(simple, COMMITTED_MS + RETENTION_MS) == [A0, A1, B0]


def test_after_the_last_member_left_the_departure_counts() -> None:
    left_ms = COMMITTED_MS + 50_000
    empty = Group(group_id="g", state_since_ms=left_ms, protocol_type="consumer")
    assert expired_in(empty, left_ms + RETENTION_MS - 1) == []
    assert expired_in(empty, left_ms + RETENTION_MS) == [A0, A1, B0]


def test_offsets_of_an_empty_group_without_a_time_expire_after_their_commit() -> None:
    empty = Group(group_id="g", state_since_ms=None, protocol_type="consumer")
    assert expired_in(empty, COMMITTED_MS + RETENTION_MS) == [A0, A1, B0]


def test_offsets_of_consumed_topics_do_not_expire() -> None:
    assert expired_in(stable("a"), COMMITTED_MS + RETENTION_MS) == [B0]


@pytest.mark.parametrize("state", [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE])
def test_nothing_expires_during_a_rebalance(state: GroupState) -> None:
    group = Group(group_id="g", state=state, protocol_type="consumer", state_since_ms=0)
    assert expired_in(group, 10**15) == []


def test_no_offset_of_a_group_expires_if_its_topics_are_unknown() -> None:
    assert expired_in(stable("a", protocol_type="connect"), 10**15) == []


def test_client_may_set_its_own_retention() -> None:
    simple = Group(group_id="g")
    assert expired_in(simple, COMMITTED_MS + 5, expires_at_ms=COMMITTED_MS + 6) == []
    assert expired_in(simple, COMMITTED_MS + 6, expires_at_ms=COMMITTED_MS + 6) == [A0, A1, B0]


def test_offsets_belong_to_their_group() -> None:
    offsets = Offsets()
    offsets.put("g", A0, committed(offset=1))
    offsets.put("h", A0, committed(offset=2))
    assert [offsets.of(name)[A0].offset for name in "gh"] == [1, 2]
    assert list(offsets.of_topic("a")) == [("g", A0), ("h", A0)]
    offsets.remove("g", A0)
    offsets.remove("g", A0)
    assert (dict(offsets.of("g")), list(offsets.group_ids()), len(offsets)) == ({}, ["h"], 1)
