"""A transactional producer of record batches that the caller has encoded: for the rows of snapshots, because a call for
each row would cost more than all other work.

A batch that a broker does not take is not retried: after an error the transaction is lost, and the next producer with
the same transactional id aborts it. TLS and SASL are not supported here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from headrace.kafka.cluster import Cluster
from headrace.kafka.connection import Connection
from headrace.kafka.errors import RequestFailed
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.batch import MAGIC, SEQUENCE_MAX, TRANSACTIONAL_BIT, BatchHeader, pack_batch
from headrace.records.compression import Codec

RETRY_S = 0.02
IN_FLIGHT_MAX = 5
"""So many batches of a partition may be unacknowledged in Kafka, which then still finds out repeated ones."""

# The versions of transactions before KIP-890, which all brokers since Kafka 2.5 have.
_FIND_COORDINATOR, _INIT, _ADD, _PRODUCE, _END, _METADATA = 3, 4, 3, 9, 3, 9
_TRANSACTION_KEY = 1
_TEMPORARY = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class BulkProducer:
    """Opening it aborts what an earlier producer with the same transactional id left open, and fences it."""

    def __init__(
        self, cluster: Cluster, transactional_id: str, *, transaction_timeout_ms: int, timeout_s: float
    ) -> None:
        self._id = transactional_id
        self._timeout_s = timeout_s
        self._connections: dict[tuple[tuple[str, int], bool], Connection] = {}
        self._leaders: dict[tuple[str, int], tuple[str, int]] = {}
        self._sequences: dict[tuple[str, int], int] = {}
        self._added: set[tuple[str, int]] = set()
        self._in_flight: deque[tuple[Connection, int, str]] = deque()
        self._bootstrap = cluster.brokers()[0]
        try:
            self._coordinator = self._retried(self._find_coordinator)
            request = InitProducerIdRequest(
                transactional_id=self._id, transaction_timeout_ms=transaction_timeout_ms
            )
            found = self._coordinated(request, InitProducerIdResponse, _INIT, "opening the producer")
        except BaseException:
            self.close()
            raise
        self._producer_id, self._epoch = found.producer_id, found.producer_epoch

    def send(
        self, topic: str, partition: int, count: int, records: bytes, *, codec: str, timestamp_ms: int
    ) -> None:
        """Append a batch of `count` records: `records` are their bytes, compressed with this codec, such as `zstd`."""
        place = topic, partition
        if place not in self._added:
            self._retried(lambda: self._add(topic, partition))
            self._added.add(place)
        sequence = self._sequences.get(place, 0)
        header = BatchHeader(
            base_offset=0,
            length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=TRANSACTIONAL_BIT | Codec[codec.upper()],
            last_offset_delta=count - 1,
            base_timestamp_ms=timestamp_ms,
            max_timestamp_ms=timestamp_ms,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            record_count=count,
        )
        data = PartitionProduceData(index=partition, records=pack_batch(header, records))
        request = ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=int(self._timeout_s * 1000),
            topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
        )
        self._sequences[place] = (sequence + count) & SEQUENCE_MAX
        if place not in self._leaders:
            self.partitions(topic)
        leader = self._connection(self._leaders[place], is_for_batches=True)
        while len(self._in_flight) >= IN_FLIGHT_MAX:
            self._acknowledge()
        self._in_flight.append((leader, leader.send(request, version=_PRODUCE), topic))

    def commit(self) -> None:
        while self._in_flight:
            self._acknowledge()
        if self._added:
            request = EndTxnRequest(
                transactional_id=self._id,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                committed=True,
            )
            self._coordinated(request, EndTxnResponse, _END, "committing")
        self._added.clear()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.__exit__()
        self._connections.clear()

    def partitions(self, topic: str) -> int:
        return int(self._retried(lambda: self._find_leaders(topic)))

    def _connection(self, address: tuple[str, int], *, is_for_batches: bool = False) -> Connection:
        """Batches have connections of their own, because other requests wait for their responses."""
        chosen = address, is_for_batches
        if chosen not in self._connections:
            self._connections[chosen] = Connection(*address, self._timeout_s)
        return self._connections[chosen]

    def _find_coordinator(self) -> tuple[str, int]:
        request = FindCoordinatorRequest(key=self._id, key_type=_TRANSACTION_KEY)
        found = self._connection(self._bootstrap).request(
            request, FindCoordinatorResponse, version=_FIND_COORDINATOR
        )
        check_code(found.error_code, "finding the coordinator of transactions")
        return found.host, found.port

    def _coordinated(self, request: Any, response: type[Any], version: int, doing: str) -> Any:
        def attempt() -> Any:
            found = self._connection(self._coordinator).request(request, response, version=version)
            check_code(found.error_code, doing)
            return found

        return self._retried(attempt)

    def _add(self, topic: str, partition: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=(partition,)),),
        )
        found = self._connection(self._coordinator).request(request, AddPartitionsToTxnResponse, version=_ADD)
        for each in found.results_by_topic_v3_and_below:
            check_code(each.results_by_partition[0].partition_error_code, f"writing to {topic}")

    def _find_leaders(self, topic: str) -> int:
        request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
        found = self._connection(self._bootstrap).request(request, MetadataResponse, version=_METADATA)
        described = found.topics[0]
        check_code(described.error_code, f"writing to {topic}")
        brokers = {broker.node_id: (broker.host, broker.port) for broker in found.brokers}
        for each in described.partitions:
            check_code(each.error_code, f"writing to {topic}")
            self._leaders[topic, each.partition_index] = brokers[each.leader_id]
        return len(described.partitions)

    def _acknowledge(self) -> None:
        leader, correlation_id, topic = self._in_flight.popleft()
        found = leader.receive(correlation_id, ProduceResponse, version=_PRODUCE)
        check_code(found.responses[0].partition_responses[0].error_code, f"writing to {topic}")

    def _retried(self, attempt: Callable[[], Any]) -> Any:
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                return attempt()
            except RequestFailed as error:
                if error.code not in _TEMPORARY or time.monotonic() > deadline_s:
                    raise
            time.sleep(RETRY_S)


def check_code(code: int, doing: str) -> None:
    if code != ErrorCode.NONE:
        name = ErrorCode(code).name if code in set(ErrorCode) else str(code)
        raise RequestFailed(f"{doing}: {name}", hint="is the broker running?", code=code)
