"""The reader of the newest records of all topics that streams follow: one consumer, in one thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.errors import HeadraceError
from headrace.gateway.log_reader import look_up_leaders, reading_config
from headrace.gateway.records import Record
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import request_failed

POLL_S = 0.05
"""How long the thread waits for records, until it looks for topics to add."""

BATCH_RECORDS_MAX = 1_000
BATCHES_MAX = 4
"""That the event loop has not taken yet. Then the thread waits, and the broker keeps the records."""

_HARMLESS = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._PARTITION_EOF)

OnRecords = Callable[[Sequence[Record], Callable[[], None]], None]
"""Gets records and what to call when they are taken."""

OnFailure = Callable[[str, HeadraceError], None]
"""Gets a topic that can't be followed any more."""


class Tail:
    """Both callbacks are called in its thread."""

    def __init__(self, cluster: Cluster, *, on_records: OnRecords, on_failure: OnFailure) -> None:
        self._on_records = on_records
        self._on_failure = on_failure
        self._changes: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._places = threading.BoundedSemaphore(BATCHES_MAX)
        self._partitions: dict[str, list[int]] = {}
        self._is_closed = False
        self._consumer = Consumer(reading_config(cluster, fetch_wait_max_ms=100))
        self._thread = threading.Thread(target=self._run, name="headrace-gateway-tail", daemon=True)
        self._thread.start()

    def add(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Read these partitions as well, from these offsets on."""

        def assign() -> None:
            if topic not in self._partitions:
                look_up_leaders(self._consumer, topic)
            self._partitions.setdefault(topic, []).extend(offsets)
            self._consumer.incremental_assign(
                [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
            )

        self._changes.put(assign)

    def remove(self, topic: str) -> None:
        def unassign() -> None:
            numbers = self._partitions.pop(topic, ())
            self._consumer.incremental_unassign([TopicPartition(topic, each) for each in numbers])

        self._changes.put(unassign)

    def close(self) -> None:
        self._is_closed = True
        self._changes.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_closed:
                self._change()
                if self._partitions:
                    self._poll()
        finally:
            self._consumer.close()

    def _change(self) -> None:
        while not self._is_closed and (not self._partitions or not self._changes.empty()):
            change = self._changes.get()
            if change is None:
                return
            change()

    def _poll(self) -> None:
        try:
            first = self._consumer.poll(POLL_S)
            if first is None:
                return
            messages = [first, *self._consumer.consume(BATCH_RECORDS_MAX, timeout=0)]
        except KafkaException:
            return  # it keeps its assignment, and reads again
        records = [Record.of(each) for each in messages if each.error() is None]
        for each in messages:
            self._on_error(each)
        if records and self._has_place():
            self._on_records(records, self._places.release)

    def _has_place(self) -> bool:
        while not self._places.acquire(timeout=POLL_S):
            if self._is_closed:
                return False
        return True

    def _on_error(self, message: Message) -> None:
        error = message.error()
        if error is None or error.retriable() or error.code() in _HARMLESS:
            return
        topic = message.topic()
        if topic is not None and topic in self._partitions:
            self._on_failure(topic, request_failed(error, f"following topic {topic}"))
