"""One fetch of a member: reads its partitions, and locks what was read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.broker.client import Client
from headrace.broker.fetch_waiters import FetchWaiters
from headrace.broker.runtime import Runtime
from headrace.broker.shares.coordinator import ShareCoordinator
from headrace.broker.shares.delivery import RUNS_MAX, Reading, read_runs
from headrace.broker.shares.key_order import Progress
from headrace.broker.shares.sessions import ShareSession
from headrace.broker.shares.share_partition import SharePartition
from headrace.broker.shares.window import LOG_END, Acquired, Run
from headrace.errors import HeadraceError
from headrace.log.errors import WouldBlock
from headrace.protocol.types import Buffer

logger = logging.getLogger(__name__)


RECORDS_ENOUGH = 50
"""So many records are worth a round trip: the records of further partitions are left to other members, which may be
idle. One partition is delivered as far as the fetch allows, so that a backlog needs no more fetches."""


ORDERED_RUNS_MAX = 1_000
"""The same for a group that is ordered by key: many records of a batch are left out, and the batch is read once."""

SEARCHED_RECORDS = 1_000
"""Records that are read at a time to find one whose key is not in flight."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What a fetch requests."""

    records_max: int
    bytes_max: int
    bytes_min: int
    wait_ms: int
    is_strict: bool
    """Never more than `records_max`, not even to finish a batch."""


class Delivered(Struct):
    """The records of one partition."""

    records: Buffer = b""
    acquired: Sequence[Acquired] = ()
    error: HeadraceError | OSError | None = None


class _Plan(Struct):
    share: SharePartition
    runs: list[Run]
    records_max: int
    end_offset: int
    aborted: Sequence[tuple[int, int]]
    progress: Progress | None = None
    keys_from: int = LOG_END
    records_min: int = 0
    """Records that other members left of several batches, and that are delivered together."""
    reading: Reading = field(default_factory=Reading)
    error: HeadraceError | OSError | None = None


class ShareFetches:
    def __init__(self, shares: ShareCoordinator, waiters: FetchWaiters, runtime: Runtime) -> None:
        self._coordinator = shares
        self._waiters = waiters
        self._runtime = runtime

    async def fetch(
        self, session: ShareSession, shares: Sequence[SharePartition], wanted: Wanted
    ) -> dict[SharePartition, Delivered]:
        """Records for a member, as soon as there are enough, or when it has waited long enough."""
        try:
            return await self._fetch(session, shares, wanted)
        finally:
            # The next waiting fetch gets the records that are left.
            coordinator = self._coordinator
            for share in shares:
                if len(share.waiters) and share.has_more(coordinator.now_ms(), coordinator.config(share)):
                    share.waiters.wake_first()

    async def _fetch(
        self, session: ShareSession, shares: Sequence[SharePartition], wanted: Wanted
    ) -> dict[SharePartition, Delivered]:
        coordinator, clock = self._coordinator, self._runtime.clock
        failed = await self._unstored(shares)
        shares = [share for share in shares if share.is_stored]
        deadline_s = clock.monotonic_s() + wanted.wait_ms / 1000
        is_searching = False
        while True:
            plans = self._plan(shares, wanted)
            await self._read(plans, _within(wanted, session.client), is_searching=is_searching)
            plans += failed
            if session.is_closed or coordinator.is_closed:
                return {}
            left_s = deadline_s - clock.monotonic_s()
            # The client learns of a deleted partition with its next fetch.
            is_any_deleted = any(share.is_deleted for share in shares)
            waits = left_s > 0 and shares and not is_any_deleted and not self._waiters.is_full
            waits = waits and session.client.memory.may_wait()
            if not waits or self._is_enough(plans, wanted):
                delivered = self._acquire(session, plans, wanted)
                is_searching = not delivered and any(map(self._has_advanced, plans))
                if delivered or not (waits or is_searching):
                    return delivered
            if is_searching:
                # The keys of all records that were read are in flight: there may be others further on.
                await asyncio.sleep(0)
                continue
            for share in shares:
                if share.window.order is not None:
                    share.hungry_members.add(session.key.member_id)
            # A fetch that requests many bytes may be woken and lock nothing, so it does not wait in the queue.
            places = shares if wanted.bytes_min <= 1 else [share.partition for share in shares]
            waiter = self._waiters.register(places, client=session.client, missing_bytes=1, timeout_s=left_s)
            await waiter.woken

    def _has_advanced(self, plan: _Plan) -> bool:
        """Whether a group that is ordered by key has looked at records, and there are more."""
        coordinator, order = self._coordinator, plan.share.window.order
        if order is None:
            return False
        if order.progress == plan.progress:
            return False
        return plan.share.has_more(coordinator.now_ms(), coordinator.config(plan.share))

    async def _unstored(self, shares: Sequence[SharePartition]) -> list[_Plan]:
        """The partitions without a durable start offset; nothing is delivered from them."""
        failed = []
        for share in shares:
            try:
                await self._coordinator.stored(share)
            except (HeadraceError, OSError) as error:
                failed.append(_Plan(share, [], 0, 0, (), error=error))
        return failed

    def _is_enough(self, plans: Sequence[_Plan], wanted: Wanted) -> bool:
        if any(plan.error is not None for plan in plans):
            return True
        size_bytes = sum(plan.reading.size_bytes for plan in plans)
        return size_bytes > 0 and size_bytes >= wanted.bytes_min

    def _plan(self, shares: Sequence[SharePartition], wanted: Wanted) -> list[_Plan]:
        coordinator = self._coordinator
        now_ms = coordinator.now_ms()
        plans = []
        for share in shares:
            config = coordinator.config(share)
            window = share.window
            if not share.is_deleted:
                window.start_at(share.partition.log.start_offset)
            if not share.may_deliver(now_ms, config):
                continue
            end_offset = share.end_offset(config.is_read_committed)
            records_max = min(window.room(config.rules), wanted.records_max)
            order = window.order
            runs_max = RUNS_MAX if order is None else ORDERED_RUNS_MAX
            whole_max = 0 if wanted.is_strict else window.whole_room(config.rules)
            runs = window.runs(now_ms, records_max=records_max, runs_max=runs_max, whole_max=whole_max)
            runs = [run for run in runs if run.first < end_offset]
            if runs:
                reader = share.partition.log.reader
                aborted = (
                    reader.aborted_transactions(runs[0].first, end_offset) if config.is_read_committed else ()
                )
                plan = _Plan(share, runs, records_max, end_offset, aborted)
                if order is not None:
                    plan.records_min = 0 if wanted.is_strict else sum(run.expected or 0 for run in runs)
                    plan.keys_from = order.decoded_to
                    plan.progress = order.progress
                plans.append(plan)
        return plans

    async def _read(self, plans: Sequence[_Plan], wanted: Wanted, *, is_searching: bool) -> None:
        if is_searching:
            wanted = replace(wanted, records_max=max(wanted.records_max, SEARCHED_RECORDS))
            for plan in plans:
                plan.records_max = max(plan.records_max, SEARCHED_RECORDS)
        try:
            _read_all(plans, wanted, nowait=True)
        except WouldBlock:
            # What is not in memory is read in a thread, so that no other request waits for the disk.
            reads_archive = any(
                plan.runs[0].first < plan.share.partition.log.segments.local_start_offset for plan in plans
            )
            await self._runtime.in_thread(
                partial(_read_all, plans, wanted, nowait=False), reads_archive=reads_archive
            )

    def _acquire(
        self, session: ShareSession, plans: Sequence[_Plan], wanted: Wanted
    ) -> dict[SharePartition, Delivered]:
        delivered: dict[SharePartition, Delivered] = {}
        left = wanted.records_max
        for plan in plans:
            if plan.error is not None:
                delivered[plan.share] = Delivered(error=plan.error)
                continue
            if left <= 0 or plan.share.is_deleted:
                continue
            acquired = self._coordinator.acquire(
                plan.share,
                plan.reading,
                member_id=session.key.member_id,
                records_max=left,
                is_strict=wanted.is_strict,
                keys_from=plan.keys_from,
            )
            if acquired:
                left -= sum(one.records for one in acquired)
                reading, is_ordered = plan.reading, plan.share.window.order is not None
                records = reading.with_offsets(acquired) if is_ordered else reading.up_to(acquired[-1].last)
                delivered[plan.share] = Delivered(records, acquired)
        return delivered


def _within(wanted: Wanted, client: Client) -> Wanted:
    """As much as there is memory for."""
    room_bytes = client.memory.response_room_bytes()
    return wanted if room_bytes >= wanted.bytes_max else replace(wanted, bytes_max=room_bytes)


def _read_all(plans: Sequence[_Plan], wanted: Wanted, *, nowait: bool) -> None:
    """Read partition after partition until there is enough. Safe to run in a thread."""
    records_left, bytes_left = wanted.records_max, wanted.bytes_max
    for plan in plans:
        if records_left <= 0 or bytes_left <= 0:
            return
        is_enough = wanted.records_max - records_left >= RECORDS_ENOUGH
        if is_enough and wanted.bytes_max - bytes_left >= wanted.bytes_min:
            return
        try:
            plan.reading = read_runs(
                plan.share.partition.log,
                plan.runs,
                records_max=max(min(records_left, plan.records_max), plan.records_min),
                bytes_max=bytes_left,
                end_offset=plan.end_offset,
                nowait=nowait,
                aborted=plan.aborted,
                keys_from=plan.keys_from,
            )
        except WouldBlock:
            raise
        except (HeadraceError, OSError) as error:
            logger.error("read failed", extra={"partition": str(plan.share.partition), "reason": str(error)})
            plan.error = error
            continue
        records_left -= plan.reading.records
        bytes_left -= plan.reading.size_bytes
