"""Produce: append batches, and respond when they are as durable as the client and the settings require."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import cast
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from headrace.broker.configs.client_quotas import PRODUCER_BYTE_RATE
from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.broker.later import Later
from headrace.broker.partition import Partition, Pending
from headrace.broker.transactions.produce import enter_transaction, is_transactional
from headrace.errors import HeadraceError
from headrace.log.errors import InvalidRecord, RecordsWithoutKey, StorageFailed
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headrace.protocol.types import Buffer

logger = logging.getLogger(__name__)

_ALL_REPLICAS, _NO_RESPONSE, _LEADER_ONLY = _ACKS = -1, 0, 1

Waiting = list[tuple[Pending, Partition]]
"""Flushes that have to finish, each with the partition whose acknowledgement waits for it."""


_Outcome = ProduceResponse | Later[ProduceResponse] | Awaitable[ProduceResponse | None] | None


def _produce_together(requests: Sequence[ProduceRequest], call: Call) -> list[_Outcome]:
    """Produce each request. Requests in a row for one partition share the write of their batches."""
    outcomes: list[_Outcome] = []
    for partition, run in groupby(requests, lambda request: _only_partition(request, call)):
        together = list(run)
        if partition is None or len(together) == 1:
            outcomes += [produce(request, call) for request in together]
        else:
            outcomes += _produce_run(together, partition, call)
    return outcomes


def _only_partition(request: ProduceRequest, call: Call) -> Partition | None:
    """The partition of a request that appends one batch to one partition, with nothing before or after the append."""
    if len(request.topic_data) != 1 or request.transactional_id is not None or call.parts.client_quotas:
        return None
    data = request.topic_data[0]
    topics = call.parts.topics
    topic = topics.get_by_id(data.topic_id) if call.version >= 13 else topics.get(data.name)
    if topic is None or not topic.takes_records or len(data.partition_data) != 1:
        return None
    partition, batch = topic.partition(data.partition_data[0].index), data.partition_data[0].records
    if partition is None or not batch or request.acks not in _ACKS or is_transactional(batch):
        return None
    return None if call.parts.inspection.is_needed(partition, batch) else partition


def _produce_run(requests: Sequence[ProduceRequest], partition: Partition, call: Call) -> Iterator[_Outcome]:
    data = [request.topic_data[0].partition_data[0] for request in requests]
    batches = [cast(Buffer, each.records) for each in data]
    now_ms = call.parts.runtime.clock.now_ms()
    for request, batch, outcome in zip(
        requests, batches, partition.append_all(batches, now_ms=now_ms), strict=True
    ):
        produced = _Produced(request, call)
        response = (
            _failure(partition.index, partition, outcome, call)
            if isinstance(outcome, HeadraceError)
            else _appended(outcome, batch, partition, produced)
        )
        topic = request.topic_data[0]
        produced.topics.append((topic.name, topic.topic_id, [response]))
        yield _when_appended(produced)


@handles(ApiKey.PRODUCE, versions=(3, 13), advertised=(0, 13), together=_produce_together)
def produce(request: ProduceRequest, call: Call) -> _Outcome:
    produced = _Produced(request, call)
    is_valid = request.acks in _ACKS
    for topic in request.topic_data:
        responses = (
            _append_topic(topic, produced) if is_valid else _rejected(topic, ErrorCode.INVALID_REQUIRED_ACKS)
        )
        produced.topics.append((topic.name, topic.topic_id, responses))
    return _when_inspected(produced) if produced.inspected else _when_appended(produced)


class _Later(Struct, frozen=True):
    """A batch that is appended after its inspection."""

    appending: asyncio.Task[PartitionProduceResponse]
    partition_index: int
    partition: Partition

    def response(self, call: Call) -> PartitionProduceResponse:
        try:
            return self.appending.result()
        except HeadraceError as error:
            return _failure(self.partition_index, self.partition, error, call)


_Responses = list[PartitionProduceResponse | _Later]


class _Produced:
    """The outcome of a request so far. It does not reference the request, whose bytes belong to the connection."""

    __slots__ = ("acks", "call", "inspected", "throttle_time_ms", "topics", "transactional_id", "waiting")

    def __init__(self, request: ProduceRequest, call: Call) -> None:
        self.acks = request.acks
        self.transactional_id = request.transactional_id
        self.call = call
        self.throttle_time_ms = _throttle_time_ms(request, call) if call.parts.client_quotas else 0
        self.topics: list[tuple[str, UUID, _Responses]] = []
        self.waiting: Waiting = []
        self.inspected: list[asyncio.Task[PartitionProduceResponse]] = []


def _throttle_time_ms(request: ProduceRequest, call: Call) -> int:
    parts = (part for topic in request.topic_data for part in topic.partition_data)
    return call.throttle_time_ms(PRODUCER_BYTE_RATE, sum(len(part.records or b"") for part in parts))


async def _when_inspected(produced: _Produced) -> ProduceResponse | None:
    await asyncio.wait(produced.inspected)
    for _, _, responses in produced.topics:
        responses[:] = [one.response(produced.call) if isinstance(one, _Later) else one for one in responses]
    response = _when_appended(produced)
    return await response if isinstance(response, Later) else response


def _when_appended(produced: _Produced) -> ProduceResponse | Later[ProduceResponse] | None:
    waiting, call = produced.waiting, produced.call
    if produced.acks == _NO_RESPONSE:
        for pending, _ in waiting:
            call.parts.flusher.flush_soon(pending)
        return None
    response = ProduceResponse(
        throttle_time_ms=produced.throttle_time_ms,
        responses=tuple(
            TopicProduceResponse(
                name=name,
                topic_id=topic_id,
                partition_responses=tuple(responses),  # type: ignore[arg-type]
            )
            for name, topic_id, responses in produced.topics
        ),
    )
    return _WhenDurable(response, waiting, call) if waiting else response


def _append_topic(data: TopicProduceData, produced: _Produced) -> _Responses:
    call = produced.call
    topics = call.parts.topics
    by_id = call.version >= 13
    topic = topics.get_by_id(data.topic_id) if by_id else topics.get(data.name)
    if topic is None:
        return _rejected(data, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not topic.takes_records:
        return _rejected(data, ErrorCode.INVALID_TOPIC_EXCEPTION)
    return [
        _append_now_or_later(part, topic.partitions[part.index], produced)
        if 0 <= part.index < len(topic.partitions)
        else PartitionProduceResponse(index=part.index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for part in data.partition_data
    ]


def _rejected(data: TopicProduceData, code: ErrorCode) -> _Responses:
    return [PartitionProduceResponse(index=part.index, error_code=code) for part in data.partition_data]


def _append_now_or_later(
    data: PartitionProduceData, partition: Partition, produced: _Produced
) -> PartitionProduceResponse | _Later:
    call, batch, index = produced.call, data.records, data.index
    inspection = call.parts.inspection
    try:
        if not batch:
            raise InvalidRecord("the produce request has no batch", hint="send at least one record")
        if not inspection.is_needed(partition, batch):
            return _append(batch, index, partition, produced, is_inspected=False)
    except HeadraceError as error:
        return _failure(index, partition, error, call)
    append = partial(_append, index=index, partition=partition, produced=produced, is_inspected=True)
    later = _Later(inspection.append(partition, batch, call.client, append), index, partition)
    produced.inspected.append(later.appending)
    return later


def _append(
    batch: Buffer, index: int, partition: Partition, produced: _Produced, *, is_inspected: bool
) -> PartitionProduceResponse:
    call, transactional_id = produced.call, produced.transactional_id
    parts = call.parts
    added: Pending | None = None
    if transactional_id is not None or is_transactional(batch):
        added = enter_transaction(transactional_id, batch, partition, parts.transactions, call.version)
    pending = partition.append(batch, now_ms=parts.runtime.clock.now_ms(), is_inspected=is_inspected)
    response = _appended(pending, batch, partition, produced)
    if added is not None and not added.is_durable:
        produced.waiting.append((added, partition))
    return response


def _appended(
    pending: Pending, batch: Buffer, partition: Partition, produced: _Produced
) -> PartitionProduceResponse:
    if not pending.is_duplicate:
        produced.call.parts.traffic.produced_bytes += len(batch)
    if not pending.is_durable:
        produced.waiting.append((pending, partition))
    return PartitionProduceResponse(
        index=partition.index,
        base_offset=pending.base_offset,
        log_append_time_ms=pending.log_append_time_ms,
        log_start_offset=partition.log.start_offset,
    )


def _failure(index: int, partition: Partition, error: HeadraceError, call: Call) -> PartitionProduceResponse:
    if isinstance(error, StorageFailed):
        call.parts.traffic.storage_failures += 1
    parts = call.parts
    repeated = parts.log_throttle.suppressed(parts.runtime.clock.monotonic_s(), str(partition), type(error))
    if repeated is not None:
        logger.warning(
            "produce rejected",
            extra={
                "partition": str(partition),
                "client_id": call.client_id,
                "reason": str(error),
                "repeated": repeated,
            },
        )
    return PartitionProduceResponse(
        index=index,
        error_code=error_code(error),
        record_errors=_record_errors(error),
        error_message=str(error),
        log_start_offset=partition.log.start_offset,
    )


def _record_errors(error: HeadraceError) -> tuple[BatchIndexAndErrorMessage, ...]:
    """The invalid records, so that a client can separate them from the other records of the batch."""
    if not isinstance(error, RecordsWithoutKey):
        return ()
    return tuple(
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message="the record has no key")
        for index in error.indexes
    )


class _WhenDurable(Later[ProduceResponse]):
    """A response that waits for flushes, and has errors for the partitions that could not be flushed."""

    __slots__ = ("_acknowledged", "_call", "_failed", "_flushes")

    def __init__(self, response: ProduceResponse, waiting: Waiting, call: Call) -> None:
        super().__init__()
        self._acknowledged = response
        self._call = call
        self._flushes = len(waiting)
        self._failed: dict[tuple[str, int], StorageFailed] = {}
        for pending, partition in waiting:
            call.parts.flusher.when_durable(pending, partial(self._flushed, partition))

    def _flushed(self, partition: Partition, error: BaseException | None) -> None:
        self._flushes -= 1
        if isinstance(error, StorageFailed):
            self._failed[_key(partition)] = error
        elif error is not None:
            return  # the broker stops, and the connection is closed
        if not self._flushes:
            response = self._acknowledged
            self.ready(_replace_failed(response, self._failed, self._call) if self._failed else response)


def _key(partition: Partition) -> tuple[str, int]:
    return partition.topic_name, partition.index


def _replace_failed(
    response: ProduceResponse, failed: dict[tuple[str, int], StorageFailed], call: Call
) -> ProduceResponse:
    """The same response, with errors for the partitions that could not be flushed."""
    topics = []
    for topic in response.responses:
        partitions = [
            _acknowledged_or_failed(topic, partition, failed, call) for partition in topic.partition_responses
        ]
        topics.append(replace(topic, partition_responses=tuple(partitions)))
    return replace(response, responses=tuple(topics))


def _acknowledged_or_failed(
    topic: TopicProduceResponse,
    partition: PartitionProduceResponse,
    failed: dict[tuple[str, int], StorageFailed],
    call: Call,
) -> PartitionProduceResponse:
    name = topic.name
    if call.version >= 13:
        known = call.parts.topics.get_by_id(topic.topic_id)
        name = known.name if known else ""
    error = failed.get((name, partition.index))
    if error is None or partition.error_code:
        return partition
    call.parts.traffic.storage_failures += 1
    return PartitionProduceResponse(
        index=partition.index, error_code=error_code(error), error_message=str(error)
    )
