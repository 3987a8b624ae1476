"""Writes the rows of snapshots to topics: a thread encodes and sends them, while the next ones are read."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from headrace.cdc.envelope import Layout, Record
from headrace.cdc.row_batches import Columns, binary_array, by_partition, encoded
from headrace.kafka.bulk_producer import BulkProducer

WAITING_MAX = 2
"""Blocks that wait to be sent. Beyond this the runner waits for the broker."""

BATCH_BYTES_MAX = 900_000
"""of a compressed batch: less than the largest one that a topic takes by default"""

# Rows of a table repeat each other and their envelope: those of pgbench become 5 bytes instead of 507.
_ZSTD = pa.Codec("zstd", compression_level=1)


class RowWriter:
    """Owns the producer. An error of the thread is raised by the next call."""

    def __init__(self, producer: BulkProducer, require_fit: Callable[[str, int], None]) -> None:
        """`require_fit` raises an error if a batch of so many bytes does not fit into a topic."""
        self._producer = producer
        self._require_fit = require_fit
        self._partitions: dict[str, int] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headrace-cdc-rows")
        self._jobs: deque[Future[None]] = deque()

    def write(self, topic: str, layout: Layout, columns: Columns) -> None:
        while len(self._jobs) >= WAITING_MAX:
            self._jobs.popleft().result()
        self._jobs.append(self._thread.submit(self._send, topic, layout, columns))

    def write_record(self, topic: str, record: Record) -> None:
        """A single record between the rows."""
        assert record.key is not None
        assert record.value is not None
        assert not record.headers
        layout = Layout(key=(record.key,), value=(b"", b""), key_columns=())
        self.write(topic, layout, [binary_array([record.value])])

    def commit(self) -> None:
        while self._jobs:
            self._jobs.popleft().result()
        self._producer.commit()

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._producer.close()

    def _send(self, topic: str, layout: Layout, columns: Columns) -> None:
        if topic not in self._partitions:
            self._partitions[topic] = self._producer.partitions(topic)
        for partition, rows in by_partition(layout, columns, self._partitions[topic]):
            self._send_batch(topic, partition, layout, rows)

    def _send_batch(self, topic: str, partition: int, layout: Layout, columns: Columns) -> None:
        count = len(columns[0])
        records = _ZSTD.compress(encoded(layout, columns), asbytes=True)
        if len(records) > BATCH_BYTES_MAX and count > 1:
            self._send_batch(topic, partition, layout, [column[: count // 2] for column in columns])
            self._send_batch(topic, partition, layout, [column[count // 2 :] for column in columns])
        else:
            if len(records) > BATCH_BYTES_MAX:
                self._require_fit(topic, len(records))
            self._producer.send(
                topic, partition, count, records, codec=_ZSTD.name, timestamp_ms=time.time_ns() // 1_000_000
            )
