"""The metrics of a share group: sums over its partitions."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from headrace.broker.configs.share_rules import Rules
from headrace.broker.shares.numbers import SHARE_COUNTERS, SHARE_GAUGES, group_numbers
from headrace.broker.shares.share_partition import SharePartition
from headrace.broker.shares.storage import ShareKey, StoredWindow
from headrace.broker.shares.window import LogBatch, Window
from tests.broker.requests import NOW_MS, batch
from tests.broker.state_topics import parts_in


def test_numbers_add_up_over_partitions_and_the_age_is_that_of_the_oldest(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path) as parts:
            topic = parts.topics.create("a", 2, {})
            shares = [
                SharePartition(
                    partition, StoredWindow(ShareKey("g", uuid.UUID(int=1), partition.index), Window(0))
                )
                for partition in topic.partitions
            ]
            for share in shares:
                share.partition.append(batch(b"0", b"1", b"2"), now_ms=NOW_MS)
                share.counters.accepted = 4
            shares[0].window.acquire([LogBatch(0, 1)], member_id="m", now_ms=0, rules=Rules(), records_max=9)
            numbers = group_numbers(shares, NOW_MS + 2_500)
            assert numbers.keys() == {*SHARE_GAUGES, *SHARE_COUNTERS}
            wanted = {"in_flight": 2, "waiting": 4, "dying": 0, "accepted": 8, "oldest_age_seconds": 2.5}
            assert {name: numbers[name] for name in wanted} == wanted

    asyncio.run(scenario())


def test_group_without_partitions_has_zeros() -> None:
    assert {*group_numbers([], NOW_MS).values()} == {0}
