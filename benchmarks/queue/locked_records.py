"""A member of a share group that keeps its records locked, without a client library: no client locks this many."""

from __future__ import annotations

import time
import uuid

from confluent_kafka import Producer

from benchmarks.broker.load import ClientFailed, create_topic
from benchmarks.queue.share_load import create_group
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from headrace.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from headrace.testing.wire import Wire

LOCKS_A_PARTITION = 10_000
"""The most that Apache Kafka allows."""

BATCH_RECORDS = 100
LOCK_DURATION_MS = 60_000
JOIN_TIMEOUT_S = 60
JOIN_INTERVAL_S = 0.2
COORDINATOR_NOT_READY = (14, 15, 16)
"""Kafka creates its internal topics before the first share group."""

FETCH_WAIT_MS = 2_000
FETCHES_MAX = 1_000
FLUSH_TIMEOUT_S = 60
FETCH_VERSION = 1
ACCEPT = 1


class Holder:
    """One member that locks all records of its own topic, one partition after another."""

    def __init__(self, bootstrap: str, name: str, partitions: int, record_bytes: int) -> None:
        self._name = name
        self._partitions = partitions
        self._member_id = str(uuid.uuid4())
        self._epoch = 0
        create_topic(bootstrap, name, partitions=partitions)
        create_group(
            bootstrap,
            name,
            partition_max_record_locks=str(LOCKS_A_PARTITION),
            record_lock_duration_ms=str(LOCK_DURATION_MS),
        )
        self._write(bootstrap, record_bytes)
        self._wire = Wire(bootstrap)
        # Kafka creates the topic with the state of groups on this request.
        self._wire.request(FindCoordinatorRequest(coordinator_keys=(name,)), version=4)
        self._topic_id = self._join()

    def _write(self, bootstrap: str, record_bytes: int) -> None:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "batch.num.messages": BATCH_RECORDS, "linger.ms": 50}
        )
        for partition in range(self._partitions):
            for _ in range(LOCKS_A_PARTITION):
                producer.produce(self._name, b"x" * record_bytes, partition=partition)
            if producer.flush(FLUSH_TIMEOUT_S):
                raise ClientFailed(f"the records of {self._name} were not written in time")

    def _join(self) -> uuid.UUID:
        epoch, topics = 0, (self._name,)
        deadline_s = time.monotonic() + JOIN_TIMEOUT_S
        while time.monotonic() < deadline_s:
            response = self._wire.request(
                ShareGroupHeartbeatRequest(
                    group_id=self._name,
                    member_id=self._member_id,
                    member_epoch=epoch,
                    subscribed_topic_names=topics if epoch == 0 else None,
                )
            )
            if response.error_code in COORDINATOR_NOT_READY:
                time.sleep(JOIN_INTERVAL_S)
                continue
            if response.error_code:
                raise ClientFailed(f"joining {self._name} failed with error {response.error_code}")
            epoch = response.member_epoch
            assigned = response.assignment.topic_partitions if response.assignment is not None else ()
            if assigned and len(assigned[0].partitions) == self._partitions:
                topic_id = assigned[0].topic_id
                assert isinstance(topic_id, uuid.UUID)
                return topic_id
            time.sleep(JOIN_INTERVAL_S)
        raise ClientFailed(f"{self._name} was not assigned within {JOIN_TIMEOUT_S} s")

    def lock_all(self) -> list[list[tuple[int, int]]]:
        """The ranges of locked offsets of each partition."""
        return [self._lock_partition(partition) for partition in range(self._partitions)]

    def _lock_partition(self, partition: int) -> list[tuple[int, int]]:
        ranges: list[tuple[int, int]] = []
        for _ in range(FETCHES_MAX):
            if sum(last - first + 1 for first, last in ranges) >= LOCKS_A_PARTITION:
                return ranges
            ranges += self._fetch(partition)
        raise ClientFailed(f"only {ranges} of partition {partition} could be locked")

    def accept_every_second(self, held: list[list[tuple[int, int]]]) -> None:
        """Accept every second record, so that every remaining locked range has one record."""
        for partition, ranges in enumerate(held):
            offsets = [offset for first, last in ranges for offset in range(first, last + 1)]
            accepted = tuple(
                AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=(ACCEPT,))
                for offset in offsets[1::2]
            )
            self._fetch(partition, accepted)

    def _fetch(
        self, partition: int, acknowledged: tuple[AcknowledgementBatch, ...] = ()
    ) -> list[tuple[int, int]]:
        part = FetchPartition(partition_index=partition, acknowledgement_batches=acknowledged)
        response = self._wire.request(
            ShareFetchRequest(
                group_id=self._name,
                member_id=self._member_id,
                share_session_epoch=self._epoch,
                max_wait_ms=0 if acknowledged else FETCH_WAIT_MS,
                max_records=LOCKS_A_PARTITION,
                batch_size=BATCH_RECORDS,
                topics=(FetchTopic(topic_id=self._topic_id, partitions=(part,)),),
            ),
            version=FETCH_VERSION,
        )
        self._epoch += 1
        parts = [part for topic in response.responses for part in topic.partitions]
        errors = [response.error_code] + [
            code for part in parts for code in (part.error_code, part.acknowledge_error_code)
        ]
        if any(errors):
            raise ClientFailed(f"fetching from partition {partition} of {self._name} failed: {errors}")
        return [
            (acquired.first_offset, acquired.last_offset)
            for part in parts
            for acquired in part.acquired_records
            if part.partition_index == partition
        ]

    def close(self) -> None:
        self._wire.close()
