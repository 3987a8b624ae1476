"""The erasures of a cluster, in a compacted topic, so that a crash at any point continues them.

One process at a time works on erasures: opening the ledger fences the process that had it before. Tombstones are
written in the same transaction as the progress, so both are there or neither.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from msgspec import Struct

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.progress import Erasure
from headrace.kafka.cluster import Cluster

LEDGER_TOPIC = "headrace.erasures"
TRANSACTIONAL_ID = "headrace-erasures"
TIMEOUT_S = 60.0

# A record of an open erasure has the key of the person. Each write closes the segment before it, so that compaction
# removes this record soon after the last one, which has no key.
_TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_LOG = logging.getLogger("headrace.erasure.kafka")
_LOG.addHandler(logging.NullHandler())


class Tombstone(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    key: bytes


class Ledger:
    """Erasures by id. Writing changes the topic first, then this object."""

    def __init__(self, cluster: Cluster) -> None:
        self._producer = Producer(
            cluster.client_config(
                **{"transactional.id": TRANSACTIONAL_ID, "enable.idempotence": True, "linger.ms": 0}
            ),
            logger=_LOG,
        )
        create_ledger(cluster)
        with _errors("opening the erasures"):
            self._producer.init_transactions(TIMEOUT_S)
        self.erasures = read_ledger(cluster)

    def get(self, erasure_id: str) -> Erasure:
        return chosen(self.erasures, erasure_id)

    def write(self, erasure: Erasure, tombstones: Iterable[Tombstone] = ()) -> None:
        """Make the progress durable, and the tombstones with it."""
        with _errors(f"erasure {erasure.id}"):
            self._producer.begin_transaction()
            for each in tombstones:
                self._produce(each.topic, each.key, None, each.partition)
            self._produce(LEDGER_TOPIC, erasure.id.encode(), msgspec.json.encode(erasure), 0)
            self._commit()
        self.erasures[erasure.id] = erasure

    def write_tombstones(self, tombstones: Iterable[Tombstone]) -> None:
        with _errors("writing tombstones"):
            self._producer.begin_transaction()
            for each in tombstones:
                self._produce(each.topic, each.key, None, each.partition)
            self._commit()

    def close(self) -> None:
        with contextlib.suppress(KafkaException):
            self._producer.purge()
            self._producer.poll(0)

    def _produce(self, topic: str, key: bytes, value: bytes | None, partition: int) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, partition)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _commit(self) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self._producer.commit_transaction(max(deadline_s - time.monotonic(), 0.1))
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() >= deadline_s:
                    raise


def create_ledger(cluster: Cluster) -> None:
    cluster.create_topic(LEDGER_TOPIC, partitions=1, config=_TOPIC_CONFIG, exist_ok=True)


def read_ledger(cluster: Cluster) -> dict[str, Erasure]:
    """All erasures, oldest first; none if there was never one. This fences nobody."""
    if LEDGER_TOPIC not in cluster.topics():
        return {}
    found: dict[str, Erasure] = {}
    for message in _read(cluster):
        value = message.value()
        if value is not None:
            erasure = msgspec.json.decode(value, type=Erasure)
            found[erasure.id] = erasure
    return dict(sorted(found.items(), key=lambda each: each[1].requested_ms))


def chosen(erasures: dict[str, Erasure], erasure_id: str) -> Erasure:
    if erasure_id not in erasures:
        raise BadErasure(
            f"there is no erasure {erasure_id}", hint="`headrace erase status` lists the erasures"
        )
    return erasures[erasure_id]


def _read(cluster: Cluster) -> Iterator[Any]:
    (partition,) = cluster.require_topics([LEDGER_TOPIC], appear_s_max=cluster.timeout_s)[LEDGER_TOPIC]
    start = cluster.earliest([partition])[partition]
    consumer = Consumer(
        cluster.client_config(
            group_id="headrace-erasure",
            enable_auto_commit=False,
            isolation_level="read_committed",
            enable_partition_eof=True,
            auto_offset_reset="earliest",
            fetch_wait_max_ms=10,
        ),
        logger=_LOG,
    )
    try:
        consumer.assign([TopicPartition(LEDGER_TOPIC, 0, start)])
        while True:
            message = consumer.poll(cluster.timeout_s)
            if message is None:
                raise ErasureInterrupted(
                    f"reading {LEDGER_TOPIC}: no response", hint="is the broker running?"
                )
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            else:
                with _errors(f"reading {LEDGER_TOPIC}"):
                    raise KafkaException(error)
    finally:
        consumer.close()


@contextlib.contextmanager
def _errors(doing: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() in _FENCED or (cause.fatal() and "fenced" in cause.str().lower()):
            raise ErasureInterrupted(
                f"{doing}: another process works on the erasures now",
                hint="it continues this one too; `headrace erase status` shows it",
            ) from error
        raise ErasureInterrupted(
            f"{doing}: {cause.str()}", hint="`headrace erase continue` continues when the broker is available"
        ) from error
