"""ShareFetch: deliver records to a member of a share group, locked for it, and take its acknowledgements.

The response waits for records, and until the acknowledgements are durable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import UUID

from headrace.broker.configs.client_quotas import CONSUMER_BYTE_RATE
from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import Outcome, error_code
from headrace.broker.rejections import RequestRejected
from headrace.broker.shares.fetching import Delivered, Wanted
from headrace.broker.shares.requests import (
    Acknowledging,
    is_final,
    open_or_continue,
    unknown_partition,
)
from headrace.broker.shares.sessions import INITIAL_EPOCH, PartitionKey, ShareSession
from headrace.broker.shares.share_partition import SharePartition
from headrace.broker.shares.storage import ShareKey
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.share_fetch import (
    AcquiredRecords,
    FetchPartition,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

RECORD_LIMIT_MODE = 1

WHOLE_BATCHES_RECORDS_MIN = 100
"""A limit below this is exact in every mode. A worker with such a small limit is slow, and should not lock a batch of
thousands of records that other workers could process. Clients of version 1 have no other way to request this."""


@handles(ApiKey.SHARE_FETCH, versions=(1, 2))
async def share_fetch(request: ShareFetchRequest, call: Call) -> ShareFetchResponse:
    await call.parts.shares.ready()
    _check(request)
    session = open_or_continue(request, call.parts.shares, call.client, may_open=True)
    acknowledging = Acknowledging(
        session, shares=call.parts.shares, topics=call.parts.topics, version=call.version
    )
    for key, partition in _partitions(request):
        if partition.acknowledgement_batches:
            acknowledging.add(*key, partition.acknowledgement_batches)
    if is_final(request):
        call.parts.shares.member_left(*session.key, is_orderly=True)
        return _response(request, {}, {}, await acknowledging.outcomes(), call)
    session.follow((key for key, _ in _partitions(request)), _forgotten(request))
    errors, shares = _find(session, call)
    delivered: Mapping[SharePartition, Delivered] = {}
    if request.max_records > 0 and not request.is_renew_ack:
        delivered = await call.parts.share_fetches.fetch(session, shares, _wanted(request, call, errors))
        session.rotate(_key(share) for share in delivered)
    return _response(request, errors, delivered, await acknowledging.outcomes(), call)


def _check(request: ShareFetchRequest) -> None:
    has_acknowledgements = any(part.acknowledgement_batches for _, part in _partitions(request))
    if request.share_session_epoch == INITIAL_EPOCH and has_acknowledgements:
        raise RequestRejected(ErrorCode.INVALID_REQUEST, "a new session can't acknowledge records")


def _partitions(request: ShareFetchRequest) -> Iterator[tuple[PartitionKey, FetchPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield PartitionKey(topic.topic_id, partition.partition_index), partition


def _forgotten(request: ShareFetchRequest) -> Iterator[PartitionKey]:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield PartitionKey(topic.topic_id, index)


def _key(share: SharePartition) -> PartitionKey:
    return PartitionKey(share.key.topic_id, share.key.partition)


def _find(session: ShareSession, call: Call) -> tuple[dict[PartitionKey, ErrorCode], list[SharePartition]]:
    errors: dict[PartitionKey, ErrorCode] = {}
    found = []
    for key in session.partitions:
        share = call.parts.shares.start(ShareKey(session.key.group_id, key.topic_id, key.partition))
        if share is None:
            errors[key] = unknown_partition(key, call.parts.topics)
        else:
            found.append(share)
    return errors, found


def _wanted(request: ShareFetchRequest, call: Call, errors: Mapping[PartitionKey, ErrorCode]) -> Wanted:
    return Wanted(
        records_max=request.max_records,
        bytes_max=min(request.max_bytes, call.parts.settings.fetch_bytes_max),
        bytes_min=request.min_bytes,
        wait_ms=0 if errors else request.max_wait_ms,
        is_strict=request.share_acquire_mode == RECORD_LIMIT_MODE
        or request.max_records < WHOLE_BATCHES_RECORDS_MIN,
    )


def _response(
    request: ShareFetchRequest,
    errors: Mapping[PartitionKey, ErrorCode],
    delivered: Mapping[SharePartition, Delivered],
    outcomes: Mapping[PartitionKey, Outcome],
    call: Call,
) -> ShareFetchResponse:
    found = {_key(share): got for share, got in delivered.items()}
    requested = (
        () if request.share_session_epoch != INITIAL_EPOCH else (key for key, _ in _partitions(request))
    )
    topics: dict[UUID, list[PartitionData]] = {}
    for key in dict.fromkeys((*found, *outcomes, *errors, *requested)):
        data = _partition_data(key, errors, found.get(key, Delivered()), outcomes.get(key, Outcome()))
        topics.setdefault(key.topic_id, []).append(data)
    fetched_bytes = sum(len(got.records) for got in delivered.values())
    call.parts.traffic.fetched_bytes += fetched_bytes
    return ShareFetchResponse(
        throttle_time_ms=call.throttle_time_ms(CONSUMER_BYTE_RATE, fetched_bytes),
        acquisition_lock_timeout_ms=call.parts.group_configs.share(request.group_id or "").rules.lock_ms,
        responses=tuple(
            ShareFetchableTopicResponse(topic_id=topic_id, partitions=tuple(parts))
            for topic_id, parts in topics.items()
        ),
    )


def _partition_data(
    key: PartitionKey, errors: Mapping[PartitionKey, ErrorCode], found: Delivered, outcome: Outcome
) -> PartitionData:
    failed = error_code(found.error) if found.error is not None else errors.get(key, ErrorCode.NONE)
    return PartitionData(
        partition_index=key.partition,
        error_code=failed,
        acknowledge_error_code=outcome.code,
        acknowledge_error_message=outcome.message,
        records=found.records,
        acquired_records=tuple(
            AcquiredRecords(first_offset=one.first, last_offset=one.last, delivery_count=one.delivery_count)
            for one in found.acquired
        ),
    )
