"""Fetch: send stored batches to the client, and wait for more if there are too few."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from uuid import UUID

from msgspec import Struct

from headrace.broker.configs.client_quotas import CONSUMER_BYTE_RATE
from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.broker.fetch_sessions import (
    FetchSession,
    Followed,
    PartitionKey,
)
from headrace.broker.fetch_waiters import FetchWaiter
from headrace.broker.partition import Partition
from headrace.errors import HeadraceError
from headrace.log.errors import ArchiveUnreachable, OffsetOutOfRange, WouldBlock
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headrace.protocol.types import Buffer
from headrace.records.batch import iterate_headers

logger = logging.getLogger(__name__)

READ_COMMITTED = 1
NO_ROOM = -1


class Wanted(Struct, frozen=True, kw_only=True):
    """One partition of a fetch: what to read, or an error."""

    key: PartitionKey
    followed: Followed
    partition: Partition | None
    error: ErrorCode
    high_watermark: int
    end_offset: int
    """The offset at which reading stops: the high watermark, or the last stable offset for transactional readers."""


class Found(Struct, kw_only=True):
    """The result of reading one partition."""

    records: Buffer = b""
    error: HeadraceError | OSError | None = None


@handles(ApiKey.FETCH, versions=(4, 18))
def fetch(request: FetchRequest, call: Call) -> FetchResponse | Awaitable[FetchResponse]:
    session = call.parts.fetch_sessions.find(request, call.version)
    wanted = _plan(request, session, call)
    try:
        found = _read(wanted, _bytes_max(request, call), nowait=True)
    except WouldBlock:
        return _fetch_from_disk(request, session, call, wanted)
    if _is_enough(request, wanted, found, call):
        return _response(request, session, wanted, found, call)
    missing_bytes = request.min_bytes - sum(len(one.records) for one in found)
    waiter = _wait(wanted, missing_bytes, request.max_wait_ms / 1000, call)
    return _fetch_later(request, session, call, waiter)


def _wait(wanted: Sequence[Wanted], missing_bytes: int, timeout_s: float, call: Call) -> FetchWaiter:
    return call.parts.fetch_waiters.register(
        [one.partition for one in wanted if one.partition is not None],
        client=call.client,
        missing_bytes=missing_bytes,
        timeout_s=timeout_s,
    )


async def _fetch_later(
    request: FetchRequest, session: FetchSession, call: Call, waiter: FetchWaiter
) -> FetchResponse:
    deadline_s = call.parts.runtime.loop.time() + request.max_wait_ms / 1000
    while True:
        await waiter.woken
        wanted = _plan(request, session, call)
        try:
            found = _read(wanted, _bytes_max(request, call), nowait=True)
        except WouldBlock:
            return await _fetch_from_disk(request, session, call, wanted)
        left_s = deadline_s - call.parts.runtime.loop.time()
        if left_s <= 0 or not waiter.has_grown or not _waits_for_commit(request, wanted, found):
            _hold_until_counted(found, call)
            return _response(request, session, wanted, found, call)
        waiter = _wait(wanted, 1, left_s, call)


def _waits_for_commit(request: FetchRequest, wanted: Sequence[Wanted], found: Sequence[Found]) -> bool:
    """Whether all new records are part of open transactions, so that the client may not see them yet."""
    if request.isolation_level != READ_COMMITTED or any(one.error for one in wanted):
        return False
    return not any(one.records or one.error is not None for one in found)


async def _fetch_from_disk(
    request: FetchRequest, session: FetchSession, call: Call, wanted: Sequence[Wanted]
) -> FetchResponse:
    """Read records that are not in memory in a thread, so that no other request waits for the disk."""
    reads_archive = any(
        one.partition is not None
        and one.followed.wanted.fetch_offset < one.partition.log.segments.local_start_offset
        for one in wanted
    )
    found = await call.parts.runtime.in_thread(
        # The free memory is checked when the thread starts: other requests may read before.
        lambda: _read(wanted, _bytes_max(request, call), nowait=False),
        reads_archive=reads_archive,
    )
    _hold_until_counted(found, call)
    return _response(request, session, wanted, found, call)


def _hold_until_counted(found: Sequence[Found], call: Call) -> None:
    """Count the bytes before the next fetch checks the free memory: many fetches may wake together."""
    size_bytes = sum(len(one.records) for one in found)
    call.client.memory.hold(size_bytes)
    # The connection counts the response right after this.
    call.parts.runtime.loop.call_soon(call.client.memory.hold, -size_bytes)


def _bytes_max(request: FetchRequest, call: Call) -> int:
    """The limit of a read, which returns at least one batch. NO_ROOM if the memory has no room for a batch."""
    room_bytes = call.client.memory.response_room_bytes()
    if not room_bytes:
        return NO_ROOM
    burst_bytes = call.parts.byte_rates.burst_bytes(CONSUMER_BYTE_RATE, call.client_id)
    requested_bytes = min(max(0, request.max_bytes), burst_bytes)
    return int(min(requested_bytes, call.parts.settings.fetch_bytes_max, room_bytes))


# Planning


def _plan(request: FetchRequest, session: FetchSession, call: Call) -> list[Wanted]:
    committed_only = request.isolation_level == READ_COMMITTED
    return [
        _wanted(key, followed, session.by_id, committed_only, call)
        for key, followed in session.partitions.items()
    ]


def _wanted(key: PartitionKey, followed: Followed, by_id: bool, committed_only: bool, call: Call) -> Wanted:
    topics = call.parts.topics
    topic = topics.get_by_id(key.topic_id) if by_id else topics.get(key.topic)
    error = ErrorCode.NONE
    found: Partition | None = None
    if topic is None:
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not 0 <= key.partition < len(topic.partitions):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        found = topic.partitions[key.partition]
        error = check_epoch(followed.wanted.current_leader_epoch, found)
    high_watermark = found.high_watermark if found is not None else -1
    return Wanted(
        key=key,
        followed=followed,
        partition=found,
        error=error,
        high_watermark=high_watermark,
        end_offset=found.last_stable_offset if committed_only and found is not None else high_watermark,
    )


def check_epoch(client_epoch: int, partition: Partition) -> ErrorCode:
    """The error for a client with an older or newer leader epoch, which makes it request metadata again."""
    if client_epoch < 0 or client_epoch == partition.log.leader_epoch:
        return ErrorCode.NONE
    older = client_epoch < partition.log.leader_epoch
    return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH


# Reading


def _read(wanted: Sequence[Wanted], bytes_max: int, *, nowait: bool) -> list[Found]:
    """Read the partitions in their order until the response is full. Safe to run in a thread."""
    results = []
    left_bytes = bytes_max
    is_first = True
    for one in wanted:
        found = _read_one(one, left_bytes, is_first, nowait)
        if found.records:
            left_bytes = max(0, left_bytes - len(found.records))
            is_first = False
        results.append(found)
    return results


def _read_one(one: Wanted, left_bytes: int, is_first: bool, nowait: bool) -> Found:
    if one.partition is None or one.error:
        return Found()
    log = one.partition.log
    offset = one.followed.wanted.fetch_offset
    if offset == one.end_offset or left_bytes == NO_ROOM or (left_bytes <= 0 and not is_first):
        return Found()
    try:
        if not log.start_offset <= offset <= one.high_watermark:
            raise OffsetOutOfRange(
                offset=offset, start_offset=log.start_offset, end_offset=one.high_watermark
            )
        records = log.reader.read(
            offset,
            bytes_max=min(left_bytes, one.followed.wanted.partition_max_bytes),
            end_offset=one.end_offset,
            at_least_one=is_first,
            nowait=nowait,
        )
    except (HeadraceError, OSError) as error:
        return Found(error=error)
    return Found(records=records)


def _is_enough(request: FetchRequest, wanted: Sequence[Wanted], found: Sequence[Found], call: Call) -> bool:
    """Whether to respond now: enough bytes, no time to wait, an error to report, or too many waiting fetches."""
    if request.max_wait_ms <= 0 or not wanted or call.parts.fetch_waiters.is_full:
        return True
    if not call.client.memory.may_wait():
        return True
    if any(one.error for one in wanted) or any(one.error is not None for one in found):
        return True
    if any(_diverges(one) is not None for one in wanted):
        return True
    return sum(len(one.records) for one in found) >= request.min_bytes


# Responding


def _response(
    request: FetchRequest, session: FetchSession, wanted: Sequence[Wanted], found: Sequence[Found], call: Call
) -> FetchResponse:
    committed_only = request.isolation_level == READ_COMMITTED
    is_incremental = session.is_incremental
    topics: dict[tuple[str, UUID], list[PartitionData]] = {}
    served = []
    for one, got in zip(wanted, found, strict=True):
        is_news = _update_session(one, got)
        if got.records:
            served.append(one.key)
        if got.records or is_news or not is_incremental:
            data = _partition_data(one, got, committed_only, call)
            topics.setdefault((one.key.topic, one.key.topic_id), []).append(data)
    session.rotate(key for key in served if key in session.partitions)
    fetched_bytes = sum(len(one.records) for one in found)
    call.parts.traffic.fetched_bytes += fetched_bytes
    return FetchResponse(
        throttle_time_ms=call.throttle_time_ms(CONSUMER_BYTE_RATE, fetched_bytes),
        session_id=session.id,
        responses=tuple(
            FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=tuple(parts))
            for (name, topic_id), parts in topics.items()
        ),
    )


def _update_session(one: Wanted, found: Found) -> bool:
    """Update the session with the partition's state in this response; whether any of it is new to the client."""
    if one.partition is None or one.error or found.error is not None or _diverges(one) is not None:
        return one.followed.update(-1, -1, has_error=True)
    return one.followed.update(one.high_watermark, one.partition.log.start_offset, has_error=False)


def _partition_data(one: Wanted, found: Found, committed_only: bool, call: Call) -> PartitionData:
    partition = one.partition
    if partition is None or one.error:
        return PartitionData(partition_index=one.key.partition, error_code=one.error)
    if found.error is not None:
        _note_failure(one, found.error, call)
        return PartitionData(
            partition_index=partition.index,
            error_code=error_code(found.error),
            high_watermark=one.high_watermark,
            last_stable_offset=one.high_watermark,
            log_start_offset=partition.log.start_offset,
        )
    diverging = _diverges(one)
    return PartitionData(
        partition_index=partition.index,
        high_watermark=one.high_watermark,
        last_stable_offset=min(partition.log.last_stable_offset, one.high_watermark),
        aborted_transactions=_aborted(one, partition, found) if committed_only else None,
        log_start_offset=partition.log.start_offset,
        diverging_epoch=diverging or EpochEndOffset(),
        records=b"" if diverging else found.records,
    )


def _aborted(one: Wanted, partition: Partition, found: Found) -> tuple[AbortedTransaction, ...]:
    """The transactions whose records in the response the client must skip."""
    from_offset = one.followed.wanted.fetch_offset
    if not found.records or not partition.log.reader.aborted_transactions(from_offset, one.end_offset):
        return ()
    *_, (_, last) = iterate_headers(found.records)
    return tuple(
        AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
        for producer_id, first_offset in partition.log.reader.aborted_transactions(
            from_offset, last.next_offset
        )
    )


def _diverges(one: Wanted) -> EpochEndOffset | None:
    """The end of the log in the epoch that the client last read, if that is before the client's position.

    This happens only after a crash from which the broker recovered by truncating the log.
    """
    last_epoch = one.followed.wanted.last_fetched_epoch
    if last_epoch < 0 or one.partition is None or last_epoch >= one.partition.log.leader_epoch:
        return None
    epoch, end_offset = one.partition.log.end_offset_for_epoch(last_epoch)
    if epoch < last_epoch or end_offset < one.followed.wanted.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def _note_failure(one: Wanted, error: HeadraceError | OSError, call: Call) -> None:
    if isinstance(error, OffsetOutOfRange) and error.offset < error.start_offset:
        missed = error.start_offset - error.offset
        call.parts.traffic.missed_records += missed
        logger.warning(
            "a consumer fell behind retention",
            extra={
                "partition": str(one.partition),
                "client_id": call.client_id,
                "missed_records": missed,
                "log_start_offset": error.start_offset,
            },
        )
    elif not isinstance(error, (OffsetOutOfRange, ArchiveUnreachable)):  # the archive logs its own failures
        parts = call.parts
        repeated = parts.log_throttle.suppressed(
            parts.runtime.clock.monotonic_s(), str(one.partition), str(error)
        )
        if repeated is not None:
            logger.error(
                "read failed",
                extra={"partition": str(one.partition), "reason": str(error), "repeated": repeated},
            )
