"""All groups of a broker: each name once, and a bound on their number."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.broker.groups.consumer_state import ConsumerGroup
from headrace.broker.groups.registry import GroupRegistry
from headrace.broker.groups.share import ShareGroup
from headrace.broker.groups.state import Group
from headrace.broker.refusals import RequestRefused
from headrace.protocol.error_codes import ErrorCode
from tests.broker.groups.running import running


def test_consumer_groups_of_both_protocols_share_names_and_the_bound() -> None:
    registry = GroupRegistry(groups_max=2)
    registry.share["s"] = ShareGroup("s")
    registry.classic["c"] = Group(group_id="c")
    assert registry.check_room() is ErrorCode.NONE
    registry.consumer["n"] = ConsumerGroup("n")
    assert registry.check_room() is ErrorCode.POLICY_VIOLATION
    assert [registry.is_taken(name) for name in ("c", "n", "s")] == [True, True, False]
    assert [group.group_id for group in registry] == ["c", "n", "s"]


def test_a_group_too_many_is_refused_and_a_known_one_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, groups_max=1) as broker:
            await broker.commit(1, "first")
            assert (await broker.join(group_id="second")).error is ErrorCode.POLICY_VIOLATION
            with pytest.raises(RequestRefused):
                await broker.commit(1, "second")
            await broker.commit(2, "first")
            assert broker.committed("first") == 2

    asyncio.run(scenario())
