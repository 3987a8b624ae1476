"""Writes records and positions to the log, in transactions: after a crash, records and position agree.

The last one to open a capture's name owns it: the transactions of an earlier owner are aborted, and it is fenced.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer
from msgspec import Struct

from headrace.cdc.envelope import Layout, Record
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.owner import Owner, last_owner, reason_of_fencing
from headrace.clock import SystemClock
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed
from headrace.kafka.errors import RequestFailed

if TYPE_CHECKING:
    from headrace.cdc.row_writer import RowWriter

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

FITS_BYTES = 900_000
"""A record of this size fits into a topic with default settings. A larger one is compared with those of its topic."""

_CONFIG: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    # The same key goes to the same partition as with a Java client.
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
    # A commit sends what is left at once, and no record is visible before it. Small batches take five times as much of
    # the broker's time.
    "linger.ms": 100,
    "message.max.bytes": 1_000_000_000,
    "delivery.report.only.error": True,
}
_LOADING = {"cleanup.policy": "delete", "retention.ms": "-1"}
"""A broker checks each record of a compacted topic for its key, and may compact it again and again while it grows."""

_UNAVAILABLE_HINT = "is the broker running, and is its disk full?"
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE)
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
    outbox: tuple[Any, ...] = ()
    """the ids of published rows that are not deleted yet"""
    loading: tuple[str, ...] = ()
    """topics that become compacted when the snapshot is complete"""


class Publisher:
    """The records of one capture. Opening it aborts what an earlier owner left open."""

    def __init__(self, capture: str, cluster: Cluster) -> None:
        self._capture = capture
        self._cluster = cluster
        self._is_open = False
        self._waiting_bytes = 0
        self._topics: set[str] = set()
        self._bytes_max: dict[str, int] = {}
        self._positions = f"{POSITIONS_TOPIC}{capture}"
        self._rows: RowWriter | None = None
        self._transactional_id = f"headrace-cdc-{capture}"
        self.ensure_topic(self._positions, partitions=1, config={"cleanup.policy": "compact"})
        self._owner = Owner.this_process(SystemClock().now_ms())
        self._open()
        self.write(self._positions, self._owner.record())
        self._commit()

    def _open(self) -> None:
        config = {**_CONFIG, "transactional.id": self._transactional_id}
        self._producer = Producer(self._cluster.client_config(**config), logger=_LOG)
        self._produce = self._producer.produce
        with self._errors("opening"):
            self._producer.init_transactions(TIMEOUT_S)

    def kept(self) -> Kept | None:
        """How far the capture is; None before its first commit."""
        found = None
        for message in read_committed(self._cluster, self._positions):
            value = message.value()
            if message.key() != _KEY:
                continue
            found = None if value is None else msgspec.json.decode(value, type=Kept)
        return found

    def live_keys(self, topic: str) -> Iterator[bytes]:
        """The keys of a compacted topic whose last record is no tombstone, as of the last commit."""
        # On disk, because a table may have more keys than memory can hold.
        with contextlib.closing(sqlite3.connect("")) as keys:
            keys.execute("CREATE TABLE live (key BLOB PRIMARY KEY) WITHOUT ROWID")
            for message in read_committed(self._cluster, topic):
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

    def ensure_loading(self, topic: str, *, partitions: int) -> bool:
        """Whether the topic takes the rows of a snapshot without compaction, until `compact`. A topic that exists is
        loaded if an earlier attempt has created it for that."""
        self.ensure_topic(topic, partitions=partitions, config=_LOADING)
        found = self._cluster.configs("topic", topic)
        return all(found[name].value == value for name, value in _LOADING.items())

    def compact(self, topic: str) -> None:
        self._cluster.alter_configs("topic", topic, {**dict.fromkeys(_LOADING), "cleanup.policy": "compact"})

    def begin_rows(self) -> None:
        """From now on `write_rows` takes rows of a snapshot. Everything before is committed."""
        # Only sources that read rows in blocks need Arrow.
        from headrace.cdc.row_writer import RowWriter
        from headrace.kafka.bulk_producer import BulkProducer

        assert not self._is_open
        with self._bulk_errors():
            # It has the same id as the producer of single records, and fences it.
            producer = BulkProducer(
                self._cluster,
                self._transactional_id,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
                timeout_s=TIMEOUT_S,
            )
        self._rows = RowWriter(producer, self._require_fit)
        self._require_owner()

    def write_rows(self, topic: str, layout: Layout, columns: Sequence[Any]) -> None:
        assert self._rows is not None
        with self._bulk_errors():
            self._rows.write(topic, layout, columns)

    def end_rows(self) -> None:
        """Only single records follow. All rows are committed."""
        if self._rows is not None:
            self._rows.close()
            self._rows = None
            self._open()
            self._require_owner()

    def _require_owner(self) -> None:
        """A producer that is opened later fences everyone: also a process that has become the owner meanwhile."""
        if last_owner(self._cluster, self._positions) != self._owner:
            raise self._fenced()

    def write(self, topic: str, record: Record) -> None:
        if self._rows is not None:
            with self._bulk_errors():
                self._rows.write_record(topic, record)
            return
        key, value = record.key, record.value
        size = (0 if key is None else len(key)) + (0 if value is None else len(value))
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            self._flush()
        if size > FITS_BYTES:
            self._require_fit(topic, size)
        self._waiting_bytes += size
        try:
            self._begin()
            if record.headers:
                self._produce(
                    topic, value, key, timestamp=record.timestamp_ms or 0, headers=list(record.headers)
                )
            else:
                self._produce(topic, value, key)
        except KafkaException as error:
            raise self._meaning(f"writing to {topic}", error) from error

    def write_all(self, topic: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Records without headers, each of them as with `write`, in less time."""
        sizes = [len(value) for value in values if value is not None]
        if max(sizes, default=0) > FITS_BYTES:
            for key, value in zip(keys, values, strict=True):
                self.write(topic, Record(key, value))
            return
        size = sum(sizes) + sum(map(len, keys))
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            self._flush()
        self._waiting_bytes += size
        try:
            self._begin()
            produce = self._produce
            for key, value in zip(keys, values, strict=True):
                produce(topic, value, key)
        except KafkaException as error:
            raise self._meaning(f"writing to {topic}", error) from error

    def _begin(self) -> None:
        if not self._is_open:
            self._producer.begin_transaction()
            self._is_open = True

    def commit(self, kept: Kept | None) -> None:
        """Make everything since the last commit visible, and keep how far the capture is; None forgets it."""
        value = None if kept is None else msgspec.json.encode(kept)
        self.write(self._positions, Record(key=_KEY, value=value))
        if self._rows is not None:
            with self._bulk_errors():
                self._rows.commit()
        else:
            self._commit()

    def _commit(self) -> None:
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
        if self._rows is not None:
            self._rows.close()
        with contextlib.suppress(KafkaException):
            self._producer.purge()
            self._producer.poll(0)

    def _flush(self) -> None:
        if left := self._producer.flush(TIMEOUT_S):
            raise SourceUnavailable(
                f"the broker did not accept {left:,} records within {TIMEOUT_S:.0f} s",
                hint=_UNAVAILABLE_HINT,
            )
        self._waiting_bytes = 0

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._meaning(doing, error) from error

    def _first_cause(self, error: KafkaException) -> KafkaError:
        """A record that the broker has rejected makes later calls fail with the state of the producer. Only an attempt
        to commit returns what was rejected: it does not commit a transaction that has failed."""
        cause: KafkaError = error.args[0]
        if cause.code() not in (KafkaError._STATE, KafkaError._FATAL):
            return cause
        try:
            self._producer.commit_transaction(TIMEOUT_S)
        except KafkaException as first:
            cause = first.args[0]
        return cause

    @contextlib.contextmanager
    def _bulk_errors(self) -> Iterator[None]:
        try:
            yield
        except RequestFailed as error:
            if error.code in _FENCED:
                raise self._fenced() from error
            if error.code in _TOO_LARGE:
                raise self._too_large(error.message) from error
            raise

    def _require_fit(self, topic: str, size: int) -> None:
        """Before it is sent: a broker may close the connection of a request that is far too large, without a reason."""
        if topic not in self._bytes_max:
            found = self._cluster.configs("topic", topic)["max.message.bytes"].value
            self._bytes_max[topic] = int(found or FITS_BYTES)
        if size > self._bytes_max[topic]:
            raise self._too_large(
                f"a record of {size:,} bytes does not fit into topic {topic}, which takes {self._bytes_max[topic]:,}"
            )

    def _fenced(self) -> BadCapture | SourceUnavailable:
        return reason_of_fencing(self._capture, self._owner, self._cluster, self._positions)

    def _too_large(self, what: str) -> BadCapture:
        return BadCapture(
            f"capture {self._capture}: {what}",
            hint="`headrace topic alter NAME --config max.message.bytes=N` raises the limit of a topic",
        )

    def _meaning(self, doing: str, error: KafkaException) -> BadCapture | SourceUnavailable:
        cause = self._first_cause(error)
        if cause.code() in _FENCED or (cause.fatal() and "fenced" in cause.str().lower()):
            return self._fenced()
        if cause.code() in _TOO_LARGE:
            return self._too_large(f"{doing}: {cause.str()}")
        return SourceUnavailable(f"capture {self._capture}: {doing}: {cause.str()}", hint=_UNAVAILABLE_HINT)
