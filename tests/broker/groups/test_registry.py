"""All groups of a broker: each name once, and limits on their number and memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.groups.consumer_state import ConsumerGroup, ConsumerMember, MemberChange
from headrace.broker.groups.registry import (
    NAME_OVERHEAD_BYTES,
    GroupRegistry,
    size_of_group,
    size_of_names,
    size_of_protocols,
)
from headrace.broker.groups.share import ShareGroup
from headrace.broker.groups.state import Group, Member
from headrace.broker.rejections import RequestRejected
from headrace.broker.settings import BrokerSettings
from headrace.protocol.error_codes import ErrorCode
from tests.broker.groups.running import running
from tests.broker.groups.simulation import offers


def settings(**values: Any) -> BrokerSettings:
    return BrokerSettings(data_dir=Path("unused"), **values)


def test_consumer_groups_of_both_protocols_share_names_and_the_bound() -> None:
    registry = GroupRegistry(settings(groups_max=2))
    registry.share["s"] = ShareGroup("s")
    registry.classic["c"] = Group(group_id="c")
    assert registry.has_room
    registry.consumer["n"] = ConsumerGroup("n")
    assert not registry.has_room
    assert [registry.is_taken(name) for name in ("c", "n", "s")] == [True, True, False]
    assert [group.group_id for group in registry] == ["c", "n", "s"]


def test_group_over_the_bound_is_rejected_and_a_known_one_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, groups_max=1) as broker:
            await broker.commit(1, "first")
            assert (await broker.join(group_id="second")).error_code == ErrorCode.POLICY_VIOLATION
            with pytest.raises(RequestRejected):
                await broker.commit(1, "second")
            await broker.commit(2, "first")
            assert broker.committed("first") == 2

    asyncio.run(scenario())


def classic(metadata: bytes, assignment: bytes = b"") -> Group:
    member = Member(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocols=offers("range", metadata=metadata),
        assignment=assignment,
    )
    return Group(group_id="g").put(member)


def test_size_counts_the_bytes_that_clients_send() -> None:
    offer = len("range") + NAME_OVERHEAD_BYTES + 10
    assert size_of_protocols(offers("range", metadata=bytes(10))) == offer
    assert size_of_group(classic(bytes(10), assignment=bytes(7))) == offer + 7
    consumers = ConsumerGroup("g")
    consumers.apply(
        MemberChange(member_id="m", before=None, after=ConsumerMember(member_id="m", topics=("a", "bc")))
    )
    assert size_of_group(consumers) == size_of_names(("a", "bc")) == 3 + 2 * NAME_OVERHEAD_BYTES


def test_member_over_its_limit_is_rejected() -> None:
    registry = GroupRegistry(settings(group_member_bytes_max=100, groups_bytes_max=1_000))
    assert registry.admits("g", 100)
    assert not registry.admits("g", 101)


def test_memory_of_removed_members_is_free_when_the_limit_is_reached() -> None:
    registry = GroupRegistry(settings(group_member_bytes_max=1_000, groups_bytes_max=1_000))
    registry.classic["g"] = classic(bytes(500))
    used = size_of_group(registry.classic["g"])
    assert registry.admits("g", used)
    assert registry.admits("g", 1_000 - used), "of a member that never joined"
    assert registry.admits("g", 1_000 - used), "the members are measured again"
    assert not registry.admits("g", 1_000 - used + 1)
    registry.classic.clear()
    assert registry.admits("g", 1_000)
