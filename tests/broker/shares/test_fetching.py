"""A fetch of a member: it locks what it gets, waits if there is nothing, and leaves the rest to other members."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headrace.broker.client import Client
from headrace.broker.parts import Parts
from headrace.broker.shares.fetching import RECORDS_ENOUGH, Delivered, Wanted
from headrace.broker.shares.sessions import SessionKey
from headrace.broker.shares.share_partition import SharePartition
from headrace.broker.shares.window import Acknowledgement, AcknowledgeType
from headrace.testing.manual_clock import ManualClock
from tests.broker.requests import NOW_MS, batch
from tests.broker.state_topics import parts_in

FOREVER_MS = 1_000_000


class Fetching:
    def __init__(self, parts: Parts, shares: list[SharePartition]) -> None:
        self.parts = parts
        self.shares = shares

    async def fetch(
        self, member: str, *, records_max: int = 500, wait_ms: int = 0, is_strict: bool = False
    ) -> dict[SharePartition, Delivered]:
        client = Client(host="h", port=1, local_host="h", local_port=2)
        session = self.parts.shares.sessions.open(SessionKey("g", member), client)
        wanted = Wanted(
            records_max=records_max, bytes_max=1 << 20, bytes_min=1, wait_ms=wait_ms, is_strict=is_strict
        )
        return await self.parts.share_fetches.fetch(session, self.shares, wanted)

    def append(self, index: int, count: int) -> None:
        self.shares[index].partition.append(batch(*(b"x" for _ in range(count))), now_ms=NOW_MS)


@asynccontextmanager
async def fetching(
    folder: Path, partitions: int = 1, clock: ManualClock | None = None
) -> AsyncIterator[Fetching]:
    with parts_in(folder, clock=clock) as parts:
        parts.shares.load()
        await parts.shares.ready()
        topic = parts.topics.create("a", partitions, {})
        parts.shares.start_topic("g", topic)
        shares = [*parts.shares.of_group("g")]
        for share in shares:
            await parts.shares.stored(share)
        try:
            yield Fetching(parts, shares)
        finally:
            parts.shares.close()


def locked(delivered: dict[SharePartition, Delivered]) -> dict[int, list[tuple[int, int]]]:
    return {
        share.key.partition: [(one.first, one.last) for one in found.acquired]
        for share, found in delivered.items()
    }


def test_record_is_delivered_to_one_member(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with fetching(tmp_path) as share:
            share.append(0, 4)
            assert locked(await share.fetch("m", records_max=2, is_strict=True)) == {0: [(0, 1)]}
            assert locked(await share.fetch("n")) == {0: [(2, 3)]}
            assert await share.fetch("o") == {}

    asyncio.run(scenario())


def test_waiting_fetches_share_what_arrives(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with fetching(tmp_path) as share:
            waiting = [
                asyncio.ensure_future(share.fetch(member, records_max=1, wait_ms=FOREVER_MS, is_strict=True))
                for member in ("m", "n")
            ]
            await asyncio.sleep(0)
            assert len(share.shares[0].waiters) == len(waiting)
            share.append(0, 2)
            found = [locked(one) for one in await asyncio.gather(*waiting)]
            assert sorted(one[0] for one in found) == [[(0, 0)], [(1, 1)]]

    asyncio.run(scenario())


def test_fetch_with_enough_records_skips_the_other_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with fetching(tmp_path, partitions=2) as share:
            for index in range(2):
                share.append(index, RECORDS_ENOUGH)
            assert locked(await share.fetch("m")) == {0: [(0, RECORDS_ENOUGH - 1)]}
            assert locked(await share.fetch("n")) == {1: [(0, RECORDS_ENOUGH - 1)]}

    asyncio.run(scenario())


def test_waiting_fetch_ends_with_its_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with fetching(tmp_path) as share:
            waiting = asyncio.ensure_future(share.fetch("m", wait_ms=FOREVER_MS))
            await asyncio.sleep(0)
            assert len(share.shares[0].waiters) == 1
            share.parts.shares.sessions.close(SessionKey("g", "m"))
            share.append(0, 1)
            assert await waiting == {}
            assert locked(await share.fetch("n")) == {0: [(0, 0)]}

    asyncio.run(scenario())


def append_keys(share: Fetching, *keys: bytes) -> None:
    for key in keys:
        share.shares[0].partition.append(batch(b"x", key=key), now_ms=NOW_MS)


def order_by_key(share: Fetching, lock_ms: int = 30_000) -> None:
    share.parts.group_configs.replace(
        {"g": {"headrace.share.order": "key", "share.record.lock.duration.ms": str(lock_ms)}}
    )


def test_ordered_fetch_looks_for_a_key_that_is_not_in_flight(tmp_path: Path) -> None:
    """Thousands of messages of the key in flight are in front of it."""

    async def scenario() -> None:
        async with fetching(tmp_path) as share:
            order_by_key(share)
            append_keys(share, *[b"a"] * 2500, b"b")
            assert locked(await share.fetch("m", records_max=1, is_strict=True)) == {0: [(0, 0)]}
            assert locked(await share.fetch("n", records_max=1, is_strict=True)) == {0: [(2500, 2500)]}
            assert await share.fetch("o") == {}

    asyncio.run(scenario())


def test_ordered_fetch_is_woken_when_a_key_is_free_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with fetching(tmp_path) as share:
            order_by_key(share)
            append_keys(share, b"a", b"a")
            assert locked(await share.fetch("m", records_max=1, is_strict=True)) == {0: [(0, 0)]}
            waiting = asyncio.ensure_future(share.fetch("n", wait_ms=FOREVER_MS))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            accepted = [Acknowledgement(0, 0, AcknowledgeType.ACCEPT)]
            share.parts.shares.acknowledge(share.shares[0], accepted, member_id="m")
            assert locked(await waiting) == {0: [(1, 1)]}

    asyncio.run(scenario())


def test_slow_member_shares_the_keys_with_one_that_waits(tmp_path: Path) -> None:
    """It acknowledges and fetches with one request, so it would always be the first to get them."""

    async def scenario() -> None:
        clock = ManualClock()
        async with fetching(tmp_path, clock=clock) as share:
            order_by_key(share)
            append_keys(share, *[b"a", b"b", b"c", b"d"] * 2)
            assert locked(await share.fetch("m", records_max=4, is_strict=True)) == {0: [(0, 3)]}
            waiting = asyncio.ensure_future(share.fetch("n", wait_ms=FOREVER_MS))
            await asyncio.sleep(0.05)
            clock.advance_ms(1000)
            accepted = [Acknowledgement(0, 3, AcknowledgeType.ACCEPT)]
            share.parts.shares.acknowledge(share.shares[0], accepted, member_id="m")
            assert locked(await share.fetch("m")) == {0: [(4, 5)]}
            assert locked(await waiting) == {0: [(6, 7)]}
            assert share.shares[0].hungry_members == set()

    asyncio.run(scenario())


def test_lock_of_an_ordered_group_outlives_the_connection(tmp_path: Path) -> None:
    """The member may still be at work; a plain group releases its records immediately."""

    async def scenario() -> None:
        clock = ManualClock()
        async with fetching(tmp_path, clock=clock) as share:
            order_by_key(share, lock_ms=200)
            append_keys(share, b"a", b"a", b"b")
            await share.fetch("m", records_max=1, is_strict=True)
            share.parts.shares.member_left("g", "m", is_orderly=False)
            assert locked(await share.fetch("n")) == {0: [(2, 2)]}
            clock.advance_ms(200)
            share.parts.shares.run_due_timers()
            assert locked(await share.fetch("o")) == {0: [(0, 0), (1, 1), (2, 2)]}
            share.parts.shares.member_left("g", "o", is_orderly=True)
            assert locked(await share.fetch("p")) == {0: [(0, 0), (1, 1), (2, 2)]}

    asyncio.run(scenario())
