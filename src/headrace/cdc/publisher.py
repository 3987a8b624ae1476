"""Writes records and positions to the log, in transactions: after a crash, records and position agree.

The last one to open a capture's name owns it: the transactions of an earlier owner are aborted, and it is fenced.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from msgspec import Struct

from headrace.cdc.envelope import Record
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.kafka.cluster import Cluster

POSITIONS_TOPIC = "headrace.cdc."
"""With the name of the capture: the topic of its positions, compacted. Each capture has its own, because an open
transaction of another one would hide the last position."""

_KEY = b"position"

TIMEOUT_S = 60.0
"""How long a broker may be unavailable before the runner retries from the last position."""

TRANSACTION_TIMEOUT_MS = 120_000
"""Readers of committed data wait that long for a runner that was killed and never started again."""

WAITING_BYTES_MAX = 32 * 1024 * 1024
"""Records in the memory of the client. Beyond this the runner waits for the broker."""

_CONFIG: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    # The same key goes to the same partition as with a Java client.
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
    "linger.ms": 5,
    "message.max.bytes": 1_000_000_000,
    "delivery.report.only.error": True,
}
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_LOG = logging.getLogger("headrace.cdc.kafka")
_LOG.addHandler(logging.NullHandler())


class OpenTransaction(Struct, frozen=True, kw_only=True):
    """A transaction of the database of which only a part is written."""

    id: str
    counts: dict[str, int]
    """events by table"""


class Kept(Struct, frozen=True, kw_only=True):
    """How far a capture is: the value of a record of its positions topic."""

    position: dict[str, Any]
    transaction: OpenTransaction | None = None


class Publisher:
    """The records of one capture. Opening it aborts what an earlier owner left open."""

    def __init__(self, capture: str, cluster: Cluster) -> None:
        self._capture = capture
        self._cluster = cluster
        self._is_open = False
        self._waiting_bytes = 0
        self._topics: set[str] = set()
        self._positions = f"{POSITIONS_TOPIC}{capture}"
        self.ensure_topic(self._positions, partitions=1, config={"cleanup.policy": "compact"})
        self._producer = Producer(
            cluster.client_config(**{**_CONFIG, "transactional.id": f"headrace-cdc-{capture}"}), logger=_LOG
        )
        with self._errors("opening"):
            self._producer.init_transactions(TIMEOUT_S)

    def kept(self) -> Kept | None:
        """How far the capture is; None before its first commit."""
        found = None
        for message in self._read(self._positions):
            value = message.value()
            found = None if value is None else msgspec.json.decode(value, type=Kept)
        return found

    def live_keys(self, topic: str) -> Iterator[bytes]:
        """The keys of a compacted topic whose last record is no tombstone, as of the last commit."""
        # On disk, because a table may have more keys than memory can hold.
        with contextlib.closing(sqlite3.connect("")) as keys:
            keys.execute("CREATE TABLE live (key BLOB PRIMARY KEY) WITHOUT ROWID")
            for message in self._read(topic):
                is_live = message.value() is not None
                statement = (
                    "INSERT OR IGNORE INTO live VALUES (?)" if is_live else "DELETE FROM live WHERE key = ?"
                )
                keys.execute(statement, (message.key(),))
            for (key,) in keys.execute("SELECT key FROM live"):
                yield key

    def ensure_topic(self, topic: str, *, partitions: int, config: dict[str, str]) -> None:
        if topic not in self._topics:
            self._cluster.create_topic(topic, partitions=partitions, config=config, exist_ok=True)
            self._topics.add(topic)

    def write(self, topic: str, record: Record) -> None:
        size = len(record.value or b"") + len(record.key or b"")
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            self._flush()
        self._waiting_bytes += size
        with self._errors(f"writing to {topic}"):
            if not self._is_open:
                self._producer.begin_transaction()
                self._is_open = True
            self._producer.produce(topic, record.value, record.key)

    def commit(self, kept: Kept | None) -> None:
        """Make everything since the last commit visible, and keep how far the capture is; None forgets it."""
        value = None if kept is None else msgspec.json.encode(kept)
        self.write(self._positions, Record(key=_KEY, value=value))
        with self._errors("committing"):
            deadline_s = time.monotonic() + TIMEOUT_S
            while True:
                try:
                    self._producer.commit_transaction(max(deadline_s - time.monotonic(), 0.1))
                    break
                except KafkaException as error:
                    if not error.args[0].retriable() or time.monotonic() >= deadline_s:
                        raise
        self._is_open = False
        self._waiting_bytes = 0

    def close(self) -> None:
        """Without waiting: what is not committed is aborted by the next owner."""
        with contextlib.suppress(KafkaException):
            self._producer.purge()
            self._producer.poll(0)

    def _read(self, topic: str) -> Iterator[Any]:
        """The committed messages of a topic that only this capture writes, to its end."""
        starts = self._cluster.earliest(self._cluster.partitions(topic))
        consumer = Consumer(
            self._cluster.client_config(
                group_id=f"headrace-cdc-{self._capture}",
                enable_auto_commit=False,
                isolation_level="read_committed",
                enable_partition_eof=True,
                # The end is reported by an empty response, which the broker would otherwise delay.
                fetch_wait_max_ms=10,
            ),
            logger=_LOG,
        )
        try:
            consumer.assign([TopicPartition(topic, each.number, start) for each, start in starts.items()])
            ended = 0
            while ended < len(starts):
                message = consumer.poll(TIMEOUT_S)
                if message is None:
                    raise SourceUnavailable(f"reading {topic}: no response", hint="is the broker running?")
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended += 1
                else:
                    with self._errors(f"reading {topic}"):
                        raise KafkaException(error)
        finally:
            consumer.close()

    def _flush(self) -> None:
        if left := self._producer.flush(TIMEOUT_S):
            raise SourceUnavailable(
                f"the broker did not accept {left:,} records within {TIMEOUT_S:.0f} s",
                hint="is it running, and is its disk full?",
            )
        self._waiting_bytes = 0

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            cause = error.args[0]
            if cause.code() in _FENCED or (cause.fatal() and "fenced" in cause.str().lower()):
                raise BadCapture(
                    f"capture {self._capture}: another process has opened it",
                    hint="a capture runs in one process at a time; stop the other one",
                ) from error
            if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                raise BadCapture(
                    f"capture {self._capture}: {doing}: {cause.str()}",
                    hint="`headrace topic alter NAME --config max.message.bytes=N` raises the limit of a topic",
                ) from error
            raise SourceUnavailable(
                f"capture {self._capture}: {doing}: {cause.str()}", hint="is the broker running?"
            ) from error
