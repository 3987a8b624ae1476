"""Blocks of lines as whole record batches: no step runs in Python for each line but its length.

The client takes records one by one, which is most of the time of `headrace produce`. If the broker rejects a batch, its
records go through the client, which reports what is wrong with each.
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.cli.output import note
from headrace.cli.records.produce_input import KeyAndValue
from headrace.kafka.errors import RequestFailed

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster

_SECURE = ("security.protocol", "sasl.mechanism", "sasl.mechanisms")
"""Batches go over a plain connection."""

_NULL = b"\x01"
"""The length -1."""


def bulk_is_possible(cluster: Cluster) -> bool:
    """Whether there are numpy and pyarrow, and a connection without security."""
    is_plain = not any(name in cluster.client_config() for name in _SECURE)
    return is_plain and all(importlib.util.find_spec(name) for name in ("numpy", "pyarrow"))


class BulkSender:
    """Sends values with the same key and headers."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        key: bytes | None,
        headers: list[tuple[str, str | bytes | None]],
        partition: int | None,
        codec: str,
        timeout_s: float,
    ) -> None:
        from headrace.kafka.idempotent_producer import IdempotentProducer

        self._producer: IdempotentProducer[list[KeyAndValue]] = IdempotentProducer(
            cluster, topic, timeout_s=timeout_s, codec=codec
        )
        self._key = key
        self._head, self._tail = self.around(key, headers)
        self._partition = self._partition_of(partition)
        self._moves = key is None and partition is None
        self._failure: RequestFailed | None = None
        self.lost_count = 0
        """records of which the broker has not reported whether they are stored"""

    @staticmethod
    def around(key: bytes | None, headers: list[tuple[str, str | bytes | None]]) -> tuple[bytes, bytes]:
        """What is in front of a value in its record, from the key on, and behind it."""
        head = _NULL if key is None else _varint(len(key)) + key
        return head, _varint(len(headers)) + b"".join(_header(name, value) for name, value in headers)

    @property
    def stored_count(self) -> int:
        return self._producer.stored_count

    def send(self, records: list[KeyAndValue]) -> bool:
        """Whether they were sent. After False, `close` has the records that are not stored."""
        from headrace.kafka.idempotent_producer import Batch

        if not records:
            return True
        batch = Batch(
            partition=self._partition,
            count=len(records),
            records=encoded([value or b"" for _, value in records], self._head, self._tail),
            timestamp_ms=time.time_ns() // 1_000_000,
            origin=records,
        )
        with self._failure_kept():
            is_sent = self._producer.send(batch)
        if self._moves:  # a batch for each partition in turn
            self._partition = (self._partition + 1) % self._producer.partitions
        return is_sent

    def settle(self) -> bool:
        """Wait for all batches: nobody sends again what was lost until there is more input. Whether all are stored."""
        with self._failure_kept():
            return not self._producer.drain()

    def close(self) -> list[list[KeyAndValue]]:
        """Wait for all batches; the records of those that were rejected."""
        try:
            if self._failure is None:
                self.settle()
        except RequestFailed as error:
            note(f"not delivered: {error.message}")
        finally:
            self._producer.close()
        self.lost_count = self._producer.in_flight_count
        return [batch.origin for batch in self._producer.rejected]

    @contextlib.contextmanager
    def _failure_kept(self) -> Iterator[None]:
        """The broker has not responded in time: `close` does not wait once more."""
        try:
            yield
        except RequestFailed as error:
            self._failure = error
            raise

    def _partition_of(self, partition: int | None) -> int:
        from headrace.events.partitioner import partition_of

        if partition is not None:
            return partition
        if self._key is not None:
            return partition_of(self._key, self._producer.partitions)
        return random.randrange(self._producer.partitions)


def encoded(values: list[bytes], head: bytes, tail: bytes) -> bytes:
    """Values as the records of one batch. `head` has the key and its length, `tail` the headers and their number."""
    import numpy as np
    import pyarrow.compute as pc

    from headrace.cdc.row_batches import binary_array, offsets, scalar, varints

    column = binary_array(values)
    value_lengths = np.diff(offsets(column)).astype(np.int64)
    offset_varints, value_varints = varints(np.arange(len(values))), varints(value_lengths)
    lengths = value_lengths + 2 + len(head) + len(tail)
    for each in (offset_varints, value_varints):
        lengths += np.diff(offsets(each))
    # Attributes and the difference of the timestamp are a zero byte each.
    fixed = scalar(b"\0\0"), scalar(head), scalar(tail), scalar(b"")
    joined = pc.binary_join_element_wise(
        varints(lengths), fixed[0], offset_varints, fixed[1], value_varints, column, fixed[2], fixed[3]
    )
    begin, end = offsets(joined)[[0, -1]].tolist()
    stored: bytes = joined.buffers()[2].slice(begin, end - begin).to_pybytes()
    return stored


def _header(name: str, value: str | bytes | None) -> bytes:
    own = name.encode()
    if value is None:
        return _varint(len(own)) + own + _NULL
    content = value.encode() if isinstance(value, str) else value
    return _varint(len(own)) + own + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    from headrace.cdc.row_batches import varint

    return varint(number)
