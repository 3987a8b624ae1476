"""Publishes the outbox of a capture: each inserted row becomes one record, in the same transaction as the position.

The log of the database has the inserts in commit order; a row that is deleted right after its insert is published too.
A snapshot may read rows that the log has as well. So the ids of published rows are kept with the position until their
rows are deleted, and a row that a snapshot reads is skipped if its id is among them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import msgspec
from confluent_kafka import KafkaError

from headrace.cdc.change import Change, Op, Table
from headrace.cdc.envelope import Record
from headrace.cdc.errors import SourceUnavailable
from headrace.cdc.outbox.definition import Outbox
from headrace.cdc.outbox.emptying import OutboxRows
from headrace.cdc.outbox.router import BadRow, Router
from headrace.cdc.publisher import Publisher
from headrace.dead_letters import (
    GROUP_HEADER,
    REASON_HEADER,
    TOPIC_CONFIG,
    TRUNCATED_HEADER,
    dead_letter_topic,
    with_errors,
)
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed

PUBLISHED_MAX = 2_000
"""Published rows that are not deleted yet. Their ids are part of each position, some 40 bytes each."""

UNDELETED_MAX = 8_000
"""Rows that could not be deleted, because the database is locked. With more, the position would be too large."""

TOPICS_MAX = 1_000
"""An aggregate type that is different for each event is a mistake, and would create a topic for each."""

DEAD_LETTER_BYTES_MAX = 64 * 1024 * 1024
"""A dead letter has the whole row, which may have been too large for its topic."""

BATCH_BYTES_SPARE = 512
"""Of a batch, beside the key, the value and the headers of its only record."""

_NOT_CREATABLE = (
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
)

Id = Any
"""Of a row, as JSON holds it."""

log = logging.getLogger("headrace.cdc")


class OutboxPublisher:
    """The outbox of one run of a capture. `published` are the ids that the position of the last run has."""

    def __init__(
        self,
        capture: str,
        outbox: Outbox,
        rows: OutboxRows,
        publisher: Publisher,
        cluster: Cluster,
        *,
        partitions: int,
        published: Iterable[Id] = (),
    ) -> None:
        self._capture = capture
        self._outbox = outbox
        self._rows = rows
        self._publisher = publisher
        self._cluster = cluster
        self._partitions = partitions
        self._router = Router(capture, outbox)
        self._published: dict[Id, bool] = dict.fromkeys(published, True)
        """whether it is committed; the rows are in the table as far as the log shows"""
        self._deleted: set[Id] = set()
        """until the log of the database shows it: a snapshot may have read them before"""
        self._locked = 0
        """how many could not be deleted at the last attempt"""
        self._bytes_max: dict[str, int] = {}
        self._letters = dead_letter_topic(f"cdc.{capture}")
        self.rejected = 0

    def owns(self, table: Table) -> bool:
        return table.name == self._outbox.table

    @property
    def published(self) -> tuple[Id, ...]:
        """For the position."""
        return tuple(self._published)

    @property
    def is_full(self) -> bool:
        return self._outbox.delete and len(self._published) - self._locked >= PUBLISHED_MAX

    def publish(self, change: Change) -> None:
        """Write the event of an inserted row. Other changes of the table are no events."""
        if change.op is Op.TRUNCATE:
            self._published.clear()
            self._deleted.clear()
        elif change.op is Op.DELETE and change.before is not None:
            id = change.before.get("id")
            self._published.pop(id, None)
            self._deleted.discard(id)
        elif change.op is Op.UPDATE:
            log.warning("capture %s: a row of outbox %s was updated", self._capture, self._outbox.table)
        elif change.after is not None and not self._is_repeated(change) and self._write(change):
            self._published[change.after["id"]] = False
            self._forget_oldest()

    def committed(self) -> None:
        """The log has the events so far."""
        self._published = dict.fromkeys(self._published, True)
        if self.is_full:
            self.empty()

    def empty(self) -> None:
        """Delete the rows that the log has. Those of a database that is locked are left for the next call."""
        ids = [id for id, is_committed in self._published.items() if is_committed]
        if not self._outbox.delete or not ids:
            return
        is_deleted = self._rows.delete(ids)
        self._locked = 0 if is_deleted else len(ids)
        if is_deleted:
            self._deleted.update(ids)
            self._published = {id: False for id in self._published if id not in self._deleted}
        elif len(ids) > UNDELETED_MAX:
            raise SourceUnavailable(
                f"{len(ids):,} rows of outbox {self._outbox.table} could not be deleted: the database is locked",
                hint="which program keeps a transaction open?",
            )

    def close(self) -> None:
        self._rows.close()

    def _is_repeated(self, change: Change) -> bool:
        assert change.after is not None
        id = change.after["id"]
        return change.op is Op.READ and (id in self._published or id in self._deleted)

    def _forget_oldest(self) -> None:
        if not self._outbox.delete and len(self._published) > PUBLISHED_MAX:
            del self._published[next(iter(self._published))]

    def _write(self, change: Change) -> bool:
        """Returns whether the log has all of the row: its event, or a dead letter that is not truncated."""
        assert change.after is not None
        try:
            routed = self._router.route(change.table, change.after)
            self._require_room(routed.topic, routed.record)
        except BadRow as error:
            return self._reject(change, str(error))
        self._publisher.write(routed.topic, routed.record)
        return True

    def _require_room(self, topic: str, record: Record) -> None:
        bytes_max = self._ensure(topic)
        size = _size(record)
        if size > bytes_max:
            raise BadRow(
                f"the record has {size:,} bytes, and topic {topic} takes {bytes_max:,} "
                f"(`headrace topic alter {topic} --config max.message.bytes=N`)"
            )

    def _ensure(self, topic: str) -> int:
        """The bytes that a record of the topic may have. Creates the topic."""
        if topic not in self._bytes_max:
            if len(self._bytes_max) >= TOPICS_MAX:
                raise BadRow(f"topic {topic} would be one more than {TOPICS_MAX:,} topics of this outbox")
            try:
                self._create(topic, {})
            except RequestFailed as error:
                if error.code in _NOT_CREATABLE:
                    raise BadRow(f"topic {topic} cannot be created: {error}") from error
                raise
        return self._bytes_max[topic]

    def _create(self, topic: str, config: dict[str, str]) -> None:
        self._publisher.ensure_topic(topic, partitions=self._partitions, config=config)
        limit = self._cluster.configs("topic", topic)["max.message.bytes"].value
        self._bytes_max[topic] = int(limit or 0)

    def _reject(self, change: Change, reason: str) -> bool:
        assert change.after is not None
        log.warning("capture %s: outbox row %s: %s", self._capture, change.after["id"], reason)
        self.rejected += 1
        if self._letters not in self._bytes_max:
            self._create(self._letters, {**TOPIC_CONFIG, "max.message.bytes": str(DEAD_LETTER_BYTES_MAX)})
        value = msgspec.json.encode(change.after)
        errors = {GROUP_HEADER: f"cdc.{self._capture}", REASON_HEADER: reason}
        letter = Record(key=str(change.after["id"]).encode(), value=value, headers=with_errors((), errors))
        room = self._bytes_max[self._letters] - _size(letter) + len(value)
        if len(value) > room:
            errors[TRUNCATED_HEADER] = str(len(value))
            letter = Record(key=letter.key, value=value[: room - 64], headers=with_errors((), errors))
        self._publisher.write(self._letters, letter)
        return len(value) <= room


def _size(record: Record) -> int:
    """At most, with what a batch adds."""
    headers = sum(len(name) + len(value or b"") + 10 for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + BATCH_BYTES_SPARE
