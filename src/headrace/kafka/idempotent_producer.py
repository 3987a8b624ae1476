"""Whole batches without a transaction, each stored once: for records that are encoded already.

Batches are numbered: one that is sent again after a lost connection or a change of the leader is not stored twice. The
first batch that the broker rejects ends the producer. Its caller gets back what is not stored, and decides.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from headrace.kafka.bulk_producer import IN_FLIGHT_MAX, RETRY_S, check_code
from headrace.kafka.cluster import Cluster
from headrace.kafka.connection import Connection
from headrace.kafka.errors import RequestFailed
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.batch import MAGIC, SEQUENCE_MAX, BatchHeader, pack_batch
from headrace.records.compression import Codec, compress

_INIT, _PRODUCE, _METADATA = 3, 9, 9
_STORED = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_TEMPORARY = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)

Origin = TypeVar("Origin")


class Batch(Struct, Generic[Origin], frozen=True, kw_only=True):
    partition: int
    count: int
    records: bytes
    """their bytes in the format of record batches"""
    timestamp_ms: int
    origin: Origin
    """what the caller made it of"""


class _Sent(Struct, Generic[Origin], kw_only=True):
    batch: Batch[Origin]
    sequence: int
    leader: Connection | None = None
    correlation_id: int = 0


class IdempotentProducer(Generic[Origin]):
    """Writes to one topic."""

    def __init__(self, cluster: Cluster, topic: str, *, timeout_s: float, codec: str = "none") -> None:
        self._topic = topic
        self._codec = Codec[codec.upper()]
        self._timeout_s = timeout_s
        self._bootstrap = cluster.brokers()
        self._connections: dict[tuple[str, int], Connection] = {}
        self._leaders: dict[int, tuple[str, int]] = {}
        self._sequences: dict[int, int] = {}
        self._begun: set[int] = set()
        """Partitions with an acknowledged batch: only of these does the broker know which one comes next."""
        self._in_flight: deque[_Sent[Origin]] = deque()
        self.rejected: list[Batch[Origin]] = []
        """those that are not stored, in order"""
        self._must_resend = False
        self.stored_count = 0
        """records that the broker has acknowledged"""
        self._producer_id, self._epoch = self._retried(self._open)

    @property
    def partitions(self) -> int:
        return len(self._leaders)

    @property
    def in_flight_count(self) -> int:
        """Records of which the broker has not reported whether they are stored."""
        return sum(sent.batch.count for sent in self._in_flight)

    def send(self, batch: Batch[Origin]) -> bool:
        """Send a batch, and do not wait for it. False if an earlier one was rejected: then `drain`."""
        if self.rejected:
            return False
        is_ordered = batch.partition in self._begun or batch.partition not in self._sequences
        while len(self._in_flight) >= (IN_FLIGHT_MAX if is_ordered else 1):
            self._acknowledge()
        sequence = self._sequences.get(batch.partition, 0)
        self._sequences[batch.partition] = (sequence + batch.count) & SEQUENCE_MAX
        self._in_flight.append(_Sent(batch=batch, sequence=sequence))
        if self.rejected:
            return True  # it is among those that `drain` returns
        try:
            self._write(self._in_flight[-1])
        except RequestFailed:
            self._must_resend = True
        except BaseException:  # Ctrl-C in the middle of a frame
            self._must_resend = True
            raise
        return True

    def drain(self) -> list[Batch[Origin]]:
        """Wait for all batches; those that are not stored, in order. Raises if no broker responds in time."""
        while self._in_flight:
            self._acknowledge()
        return self.rejected

    def close(self) -> None:
        for connection in self._connections.values():
            connection.__exit__()
        self._connections.clear()

    def _acknowledge(self) -> None:
        """Wait for the oldest batch."""
        code = self._retried(self._receive)
        sent = self._in_flight.popleft()
        if code in _STORED:
            self._begun.add(sent.batch.partition)
            self.stored_count += sent.batch.count
        else:
            self.rejected.append(sent.batch)

    def _receive(self) -> int:
        if self._must_resend:
            self._resend()
        sent = self._in_flight[0]
        if sent.leader is None:  # a batch in front of it was rejected
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        try:
            found = sent.leader.receive(sent.correlation_id, ProduceResponse, version=_PRODUCE)
        except RequestFailed:
            self._must_resend = True
            raise
        code: int = found.responses[0].partition_responses[0].error_code
        if code in _TEMPORARY:
            self._must_resend = True
            raise RequestFailed(f"writing to {self._topic}: {ErrorCode(code).name}", code=code)
        return code

    def _resend(self) -> None:
        """All batches in flight in order, on new connections; the broker recognizes those that it has."""
        self.close()
        self._find_leaders()
        for sent in self._in_flight:
            self._write(sent)
        self._must_resend = False

    def _write(self, sent: _Sent[Origin]) -> None:
        batch = sent.batch
        header = BatchHeader(
            base_offset=0,
            length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=self._codec,
            last_offset_delta=batch.count - 1,
            base_timestamp_ms=batch.timestamp_ms,
            max_timestamp_ms=batch.timestamp_ms,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sent.sequence,
            record_count=batch.count,
        )
        packed = pack_batch(header, compress(self._codec, batch.records))
        data = PartitionProduceData(index=batch.partition, records=packed)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=int(self._timeout_s * 1000),
            topic_data=(TopicProduceData(name=self._topic, partition_data=(data,)),),
        )
        leader = self._connection(self._leaders[batch.partition])
        sent.correlation_id = leader.send(request, version=_PRODUCE)
        sent.leader = leader

    def _connection(self, address: tuple[str, int]) -> Connection:
        if address not in self._connections:
            self._connections[address] = Connection(*address, self._timeout_s)
        return self._connections[address]

    def _open(self) -> tuple[int, int]:
        self._find_leaders()
        address = next(iter(self._leaders.values()))
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        found = self._connection(address).request(request, InitProducerIdResponse, version=_INIT)
        check_code(found.error_code, f"writing to {self._topic}")
        return found.producer_id, found.producer_epoch

    def _find_leaders(self) -> None:
        request = MetadataRequest(
            topics=(MetadataRequestTopic(name=self._topic),), allow_auto_topic_creation=False
        )
        with self._any_broker() as broker:
            found = broker.request(request, MetadataResponse, version=_METADATA)
        described = found.topics[0]
        check_code(described.error_code, f"writing to {self._topic}")
        brokers = {broker.node_id: (broker.host, broker.port) for broker in found.brokers}
        for each in described.partitions:
            check_code(each.error_code, f"writing to {self._topic}")
            self._leaders[each.partition_index] = brokers[each.leader_id]

    def _any_broker(self) -> Connection:
        """Of those that were there at the start, the first that accepts a connection."""
        for number, address in enumerate(self._bootstrap, 1):
            try:
                return Connection(*address, self._timeout_s)
            except RequestFailed:
                if number == len(self._bootstrap):
                    raise
        raise AssertionError("a cluster has brokers")

    def _retried(self, attempt: Callable[[], Any]) -> Any:
        """Until it succeeds, or the broker did not respond, or not well, for the time-out."""
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                return attempt()
            except RequestFailed as error:
                is_temporary = error.code is None or error.code in _TEMPORARY
                if not is_temporary or time.monotonic() > deadline_s:
                    raise
                self._must_resend = True
            time.sleep(RETRY_S)
