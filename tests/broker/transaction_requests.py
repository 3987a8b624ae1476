"""A transactional producer for tests, of the older protocol or of KIP-890, on any broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headrace.records.batch import iterate_headers
from headrace.records.record import Record, decode_records, encode_batch
from headrace.testing.wire import Wire
from tests.broker.requests import fetch, only_partition

PATIENCE_S = 30
READ_COMMITTED = 1

# What a client asks again after, instead of giving up.
PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)


class TransactionalProducer:
    """With `is_classic` it adds partitions explicitly, as before KIP-890; otherwise the first write adds them."""

    def __init__(
        self, wire: Wire, transactional_id: str, *, is_classic: bool = True, timeout_ms: int = 60_000
    ) -> None:
        self.wire = wire
        self.transactional_id = transactional_id
        self.is_classic = is_classic
        self.timeout_ms = timeout_ms
        self.producer_id = self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    def request(self, request: Any, version: int) -> Any:
        """Ask again after errors that pass; Kafka may be busy with what came before."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            response = self.wire.request(request, version=version)
            if _error(response) not in PASSING or time.monotonic() > deadline_s:
                return response
            time.sleep(0.02)

    def init(self, **changes: Any) -> InitProducerIdResponse:
        """Become the one instance of this id."""
        self.request(FindCoordinatorRequest(key_type=1, key=self.transactional_id), 3)
        fields = {"transactional_id": self.transactional_id, "transaction_timeout_ms": self.timeout_ms}
        response: InitProducerIdResponse = self.request(InitProducerIdRequest(**{**fields, **changes}), 5)
        if not response.error_code:
            self.use(response.producer_id, response.producer_epoch)
        return response

    def use(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    def add(self, topic: str, *partitions: int, version: int = 3) -> list[int]:
        """The error of each partition."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=partitions or (0,)),),
        )
        (result,) = self.request(request, version).results_by_topic_v3_and_below
        return [one.partition_error_code for one in result.results_by_partition]

    def batch(self, topic: str, *values: bytes, partition: int = 0) -> bytes:
        first = self._sequences.get((topic, partition), 0)
        self._sequences[topic, partition] = first + len(values)
        return encode_batch(
            [
                Record(offset=number, timestamp_ms=round(time.time() * 1000), key=b"k", value=value)
                for number, value in enumerate(values)
            ],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=first,
            is_transactional=True,
        )

    def send(
        self, topic: str, *values: bytes, partition: int = 0, version: int | None = None
    ) -> PartitionProduceResponse:
        """One produce request and nothing else."""
        if version is None:
            version = 11 if self.is_classic else 12
        data = PartitionProduceData(index=partition, records=self.batch(topic, *values, partition=partition))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
        )
        response: PartitionProduceResponse = only_partition(self.request(request, version))
        return response

    def write(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """Write as part of the transaction, which this may begin; the first offset."""
        if self.is_classic:
            assert self.add(topic, partition) == [0]
        response = self.send(topic, *values, partition=partition)
        assert response.error_code == 0, ErrorCode(response.error_code)
        return response.base_offset

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int],
        *,
        version: int | None = None,
        **changes: Any,
    ) -> list[int]:
        """The error of each partition."""
        if self.is_classic and version is None:
            added = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group,
            )
            self.request(FindCoordinatorRequest(key_type=0, key=group), 3)
            assert self.request(added, 3).error_code == 0
        fields = {
            "transactional_id": self.transactional_id,
            "group_id": group,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "topics": tuple(
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=(
                        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset),
                    ),
                )
                for (topic, index), offset in offsets.items()
            ),
        }
        default = 4 if self.is_classic else 5
        response = self.request(TxnOffsetCommitRequest(**{**fields, **changes}), version or default)
        return [one.error_code for topic in response.topics for one in topic.partitions]

    def end(self, *, committed: bool, version: int | None = None) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        response: EndTxnResponse = self.request(request, version or (4 if self.is_classic else 5))
        return response

    def commit(self) -> None:
        self._ended(self.end(committed=True))

    def abort(self) -> None:
        self._ended(self.end(committed=False))

    def _ended(self, response: EndTxnResponse) -> None:
        assert response.error_code == 0, ErrorCode(response.error_code)
        if not self.is_classic:
            self.use(response.producer_id, response.producer_epoch)


def _error(response: Any) -> int:
    """The first error that an answer has anywhere."""
    for name in ("error_code", "partition_error_code"):
        if getattr(response, name, 0):
            code: int = getattr(response, name)
            return code
    for name in (
        "results_by_topic_v3_and_below",
        "results_by_partition",
        "responses",
        "partition_responses",
        "topics",
        "partitions",
        "groups",
    ):
        for inner in getattr(response, name, None) or ():
            if code := _error(inner):
                return code
    return 0


def eventually(look: Callable[[], object], expected: object) -> bool:
    """Whether what is seen becomes what is expected: Kafka answers before the partitions have their markers."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (seen := look()) != expected and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert seen == expected
    return True


def committed_values(wire: Wire, topic: str, *, partition: int = 0) -> list[bytes | None]:
    """What a client with read_committed makes of the answers, from the start to the last stable offset."""
    found: list[bytes | None] = []
    offset = 0
    while True:
        response = fetch(wire, topic, offset, partition=partition, isolation_level=READ_COMMITTED)
        assert response.error_code == 0, ErrorCode(response.error_code)
        data = bytes(response.records or b"")
        aborted = sorted(response.aborted_transactions or (), key=lambda entry: entry.first_offset)
        aborting: set[int] = set()
        for position, header in iterate_headers(data):
            offset = header.next_offset
            while aborted and aborted[0].first_offset <= header.last_offset:
                aborting.add(aborted.pop(0).producer_id)
            if header.is_control:
                aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                batch = data[position : position + header.size_bytes]
                found += [record.value for record in decode_records(batch, bytes_max=1 << 20)]
        if not data:
            return found


def last_stable_offset(wire: Wire, topic: str, *, partition: int = 0) -> int:
    return fetch(wire, topic, 0, partition=partition, isolation_level=READ_COMMITTED).last_stable_offset
