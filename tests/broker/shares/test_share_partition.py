"""A share group on a partition: the fetches that are woken, and its lag."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.broker.client import Client
from headrace.broker.configs.share_rules import Rules
from headrace.broker.fetch_waiters import FetchWaiter, FetchWaiters
from headrace.broker.shares.share_partition import (
    SHARE_COUNTERS,
    SHARE_GAUGES,
    SharePartition,
    group_numbers,
)
from headrace.broker.shares.storage import ShareKey, StoredWindow
from headrace.broker.shares.window import Acknowledgement, AcknowledgeType, LogBatch, Window
from tests.broker.requests import NOW_MS, batch
from tests.broker.state_topics import parts_in


@contextmanager
def share_in(folder: Path) -> Iterator[SharePartition]:
    with parts_in(folder) as parts:
        topic = parts.topics.create("a", 1, {})
        yield SharePartition(topic.partitions[0], StoredWindow(ShareKey("g", uuid.UUID(int=1), 0), Window(0)))


def waiting(share: SharePartition, count: int) -> list[FetchWaiter]:
    client = Client(host="h", port=1, local_host="h", local_port=2)
    waiters = FetchWaiters(asyncio.get_running_loop(), 10)
    return [waiters.register([share], client=client, missing_bytes=1, timeout_s=1_000) for _ in range(count)]


def test_new_records_wake_one_fetch_and_the_deletion_wakes_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        with share_in(tmp_path) as share:
            share.watch()
            fetches = waiting(share, 3)
            share.partition.append(batch(b"x"), now_ms=NOW_MS)
            assert [fetch.woken.done() for fetch in fetches] == [True, False, False]
            share.delete()
            assert all(fetch.woken.done() for fetch in fetches)
            assert share.is_deleted
            assert len(share.waiters) == len(share.partition.waiters) == 0

    asyncio.run(scenario())


def test_lag_counts_the_records_that_are_not_done(tmp_path: Path) -> None:
    async def scenario() -> None:
        with share_in(tmp_path) as share:
            share.partition.append(batch(b"0", b"1", b"2", b"3"), now_ms=NOW_MS)
            assert share.lag == 4
            rules = Rules()
            share.window.acquire([LogBatch(0, 3)], member_id="m", now_ms=0, rules=rules, records_max=9)
            done = [
                Acknowledgement(0, 0, AcknowledgeType.ACCEPT),
                Acknowledgement(2, 2, AcknowledgeType.ACCEPT),
            ]
            share.window.acknowledge(done, member_id="m", now_ms=0, rules=rules)
            assert (share.window.start_offset, share.lag) == (1, 2)

    asyncio.run(scenario())


def test_oldest_timestamp_is_that_of_the_first_record_that_is_not_done(tmp_path: Path) -> None:
    async def scenario() -> None:
        with share_in(tmp_path) as share:
            assert share.oldest_timestamp_ms() is None
            share.partition.append(batch(b"x"), now_ms=NOW_MS)
            assert share.oldest_timestamp_ms() == NOW_MS
            share.window.start_at(1)
            assert share.oldest_timestamp_ms() is None

    asyncio.run(scenario())


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
                share.counters["accepted"] = 4
            shares[0].window.acquire([LogBatch(0, 1)], member_id="m", now_ms=0, rules=Rules(), records_max=9)
            numbers = group_numbers(shares, NOW_MS + 2_500)
            assert numbers.keys() == {*SHARE_GAUGES, *SHARE_COUNTERS}
            wanted = {"in_flight": 2, "waiting": 4, "dying": 0, "accepted": 8, "oldest_age_seconds": 2.5}
            assert {name: numbers[name] for name in wanted} == wanted

    asyncio.run(scenario())


def test_group_without_partitions_has_zeros() -> None:
    assert {*group_numbers([], NOW_MS).values()} == {0}
