"""The coordinator of share groups: locks, sessions and groups, and time that is set while they are at work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.broker.client import Client
from headrace.broker.groups.share import JOIN_EPOCH, LEAVE_EPOCH, ShareHeartbeat
from headrace.broker.parts import Parts
from headrace.broker.rejections import RequestRejected
from headrace.broker.server import Server
from headrace.broker.settings import BrokerSettings
from headrace.broker.shares.delivery import Reading
from headrace.broker.shares.sessions import SessionKey
from headrace.broker.shares.share_partition import SharePartition
from headrace.broker.shares.states import RecordState
from headrace.broker.shares.window import Acknowledgement, AcknowledgeType, LogBatch
from headrace.protocol.error_codes import ErrorCode
from headrace.testing.manual_clock import ManualClock
from headrace.testing.wire import Wire
from tests.broker.requests import NOW_MS, batch, create_topic, produce
from tests.broker.share_requests import ACCEPT, RELEASE, WAIT_MS, ShareMember, set_group_configs
from tests.broker.state_topics import parts_in

YEAR_MS = 31_536_000_000
LOCK_MS = 30_000


class JumpingClock:
    """Its wall clock can be set; its monotonic one continues."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def monotonic_s(self) -> float:
        return time.monotonic()


@pytest.mark.parametrize("jump_ms", [YEAR_MS, -YEAR_MS])
def test_locks_and_delays_do_not_jump_with_the_wall_clock(tmp_path: Path, jump_ms: int) -> None:
    clock = JumpingClock()

    def work(bootstrap: str) -> None:
        with Wire(bootstrap) as wire:
            topic_id = create_topic(wire, "t", retention_ms="-1")
            set_group_configs(
                wire, "g", share_auto_offset_reset="earliest", headrace_share_retry_backoff_ms=150
            )
            produce(wire, "t", batch(b"0", b"1"))
            holder, other = ShareMember(wire, "g", topic_id), ShareMember(wire, "g", topic_id)
            assert holder.offsets() == [0, 1]
            clock.ahead_ms = jump_ms
            assert other.offsets(max_wait_ms=200) == [], "the lock is not over"
            assert holder.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE)) is ErrorCode.NONE
            clock.ahead_ms = 0
            assert other.offsets(max_wait_ms=WAIT_MS) == [1], "the delay ends by itself"

    async def serve() -> None:
        server = Server(BrokerSettings(data_dir=tmp_path, port=0), clock=clock)
        await server.start()
        try:
            await asyncio.to_thread(work, server.bootstrap)
        finally:
            await server.stop()

    asyncio.run(serve())


@asynccontextmanager
async def share_in(
    folder: Path, clock: ManualClock | None = None
) -> AsyncIterator[tuple[Parts, SharePartition]]:
    """The group "g" on a partition with four records, two of which the member "m" has locked."""
    with parts_in(folder, clock=clock) as parts:
        parts.shares.load()
        await parts.shares.ready()
        topic = parts.topics.create("a", 1, {})
        parts.shares.start_topic("g", topic)
        [share] = parts.shares.of_group("g")
        share.partition.append(batch(b"0", b"1", b"2", b"3"), now_ms=NOW_MS)
        lock(parts, share, "m", 0, 1)
        try:
            yield parts, share
        finally:
            parts.shares.close()


def lock(parts: Parts, share: SharePartition, member_id: str, first: int, last: int) -> None:
    reading = Reading(batches=[LogBatch(first, last)])
    parts.shares.acquire(share, reading, member_id=member_id, records_max=9, is_strict=True)


def locked(share: SharePartition) -> int:
    return share.window.spans.records_in[RecordState.ACQUIRED]


def test_lock_expires_and_the_record_is_delivered_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with share_in(tmp_path, clock) as (parts, share):
            clock.advance_ms(LOCK_MS - 1)
            parts.shares.run_due_timers()
            assert (locked(share), share.counters["expired"]) == (2, 0)
            clock.advance_ms(1)
            parts.shares.run_due_timers()
            assert (locked(share), share.counters["expired"]) == (0, 2)
            lock(parts, share, "n", 0, 1)
            assert (locked(share), share.counters["delivered"]) == (2, 4)

    asyncio.run(scenario())


def test_acknowledgements_are_counted_and_durable(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with share_in(tmp_path) as (parts, share):
            done = [
                Acknowledgement(0, 0, AcknowledgeType.ACCEPT),
                Acknowledgement(1, 1, AcknowledgeType.RELEASE),
            ]
            writing = parts.shares.acknowledge(share, done, member_id="m")
            assert writing is not None
            await writing
            assert (share.counters["accepted"], share.counters["released"]) == (1, 1)
            assert (share.window.start_offset, locked(share)) == (1, 0)

    asyncio.run(scenario())


def test_locks_of_a_lost_connection_are_released_and_those_of_others_are_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with share_in(tmp_path) as (parts, share):
            lost = Client(host="h", port=1, local_host="h", local_port=2)
            parts.shares.sessions.open(SessionKey("g", "m"), lost)
            lock(parts, share, "n", 2, 2)
            parts.shares.client_disconnected(lost)
            assert (locked(share), len(parts.shares.sessions)) == (1, 0)

    asyncio.run(scenario())


def test_group_is_deleted_with_its_states_unless_it_has_members(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with share_in(tmp_path) as (parts, share):
            with pytest.raises(RequestRejected) as unknown:
                await parts.shares.delete_group("other")
            assert unknown.value.code is ErrorCode.GROUP_ID_NOT_FOUND
            joining = ShareHeartbeat(member_id="m", member_epoch=JOIN_EPOCH, client_id="c", client_host="/h")
            parts.share_members.heartbeat("g", joining)
            with pytest.raises(RequestRejected) as in_use:
                await parts.shares.delete_group("g")
            assert in_use.value.code is ErrorCode.NON_EMPTY_GROUP
            parts.share_members.heartbeat("g", replace(joining, member_epoch=LEAVE_EPOCH))
            await parts.shares.delete_group("g")
            assert (share.is_deleted, parts.shares.group_ids()) == (True, [])
        with parts_in(tmp_path) as parts:
            parts.shares.load()
            await parts.shares.ready()
            assert parts.shares.group_ids() == []

    asyncio.run(scenario())


def test_altered_offset_is_within_the_log_and_drops_the_states_of_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with share_in(tmp_path) as (parts, share):
            topic = parts.topics.get("a")
            assert topic is not None
            for wanted, start in ((3, 3), (99, 4), (-1, 0)):
                await parts.shares.alter_offsets("g", topic, {0: wanted})
                [altered] = parts.shares.of_group("g")
                assert (altered.window.start_offset, locked(altered)) == (start, 0)
            assert share.is_deleted
        with parts_in(tmp_path) as parts:
            parts.shares.load()
            await parts.shares.ready()
            [loaded] = parts.shares.of_group("g")
            assert loaded.window.start_offset == 0

    asyncio.run(scenario())
