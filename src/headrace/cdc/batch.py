"""The events since the last commit of a capture, written to the topics of their tables.

A batch knows which topics a table has, the place of each change in its transaction, and when a commit is due.
"""

from __future__ import annotations

import time

from msgspec.structs import replace

from headrace.cdc.capture import Capture
from headrace.cdc.change import BulkEvent, Change, ChangedRows, Committed, Op, Position, ReadRows, Table
from headrace.cdc.envelope import Envelope, Record
from headrace.cdc.errors import BadCapture
from headrace.cdc.outbox.publishing import OutboxPublisher
from headrace.cdc.publisher import Kept, Publisher
from headrace.cdc.schemas import SchemaTopic
from headrace.cdc.transactions import Transactions
from headrace.clock import Clock
from headrace.kafka.cluster import BROKERS_DEFAULT

LINGER_S = 0.02
"""How long records wait for others, so that many small transactions of the database share one of the log."""

LINGER_COMMITS = 5
"""Records also wait this many times as long as the last commit took, so that a busy capture does not spend its time on
commits. An idle source is not waited for."""

BACKLOG_EVENTS = 500
BACKLOG_LINGER_COMMITS = 20
"""A commit of so many events is one of a backlog: then the rate counts, and not the latency."""

EVENTS_PER_COMMIT_MAX = 20_000
"""Bounds what readers of committed data wait for, and what is repeated after a crash."""

TOPIC_CONFIGS = {
    "latest": {"cleanup.policy": "compact"},
    "all": {"cleanup.policy": "delete", "retention.ms": "-1"},
}
CHANGES_SUFFIX = ".changes"
"""Of the topic that keeps every change, if there is one for the latest as well."""


class Batch:
    """The events since the last commit, and the place of each in its transaction."""

    def __init__(
        self,
        capture: Capture,
        envelope: Envelope,
        publisher: Publisher,
        schemas: SchemaTopic,
        outbox: OutboxPublisher | None,
        kept: Kept | None,
        clock: Clock,
    ) -> None:
        self._capture = capture
        self._partitions = capture.partitions or BROKERS_DEFAULT
        self._envelope = envelope
        self._publisher = publisher
        self._schemas = schemas
        self._outbox = outbox
        self._clock = clock
        self._transactions = Transactions(
            envelope, kept.transaction if kept is not None else None, self._write_mark
        )
        self._topics_of: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        self._loading = set(kept.loading) if kept is not None else set()
        self._marks: str | None = None
        """the topic of transactions"""
        self._events = 0
        self._has_rows = False
        self._since_s = 0.0
        self._linger_s = LINGER_S
        self.position: Position = {}
        self.has_position = False
        """the last event may be one that the source cannot continue from"""

    def add(self, event: BulkEvent, now_s: float) -> None:
        if isinstance(event, ReadRows) and self._outbox is not None and self._outbox.owns(event.table):
            for change in event.changes():
                self.add(change, now_s)
            return
        if isinstance(event, ReadRows) is not self._has_rows:
            self._switch(to_rows=not self._has_rows)
        if self._loading and not self._has_rows:
            self._end_loading()
        if self._events == 0:
            self._since_s = now_s
        self._events += 1
        if isinstance(event, Committed):
            self._transactions.end(event)
        elif isinstance(event, ReadRows):
            self._write_rows(event)
        elif isinstance(event, ChangedRows):
            self._events += event.count
            self._write_changes(event)
        else:
            if event.op is Op.TRUNCATE and self.has_position:
                self.commit()  # the rows to remove are read from the topic
            self._write(event)
        position = event.position
        self.has_position = position is not None
        if position is not None:
            self.position = position

    def is_due(self, now_s: float, *, is_idle: bool) -> bool:
        if not self.has_position:
            return False
        return (
            is_idle
            or self._events >= EVENTS_PER_COMMIT_MAX
            or now_s - self._since_s >= self._linger_s
            or (self._outbox is not None and self._outbox.is_full)
        )

    def commit(self) -> None:
        started_s = time.monotonic()
        published = () if self._outbox is None else self._outbox.published
        self._publisher.commit(
            Kept(
                position=dict(self.position),
                transaction=self._transactions.open,
                outbox=published,
                loading=tuple(sorted(self._loading)),
            )
        )
        if self._outbox is not None:
            self._outbox.committed()
        commits = BACKLOG_LINGER_COMMITS if self._events >= BACKLOG_EVENTS else LINGER_COMMITS
        self._linger_s = max(LINGER_S, commits * (time.monotonic() - started_s))
        self._events = 0
        self.has_position = False

    def _write(self, change: Change) -> None:
        if self._outbox is not None and self._outbox.owns(change.table):
            self._outbox.publish(change)
            return
        now_ms = self._clock.now_ms()
        place = self._transactions.place(change)
        records = whole = self._envelope.records(change, now_ms, place)
        if change.whole is not None:
            # Compaction may remove the last record that has all values of a row. The history keeps what the log has.
            whole = self._envelope.records(replace(change, after=change.whole), now_ms, place)
        topics = self._topics_of.get(change.table.path) or self._topics(change.table)
        self._schemas.follow(
            change.table,
            [topic for topic, _ in topics],
            source=change.source,
            committed_ms=change.committed_ms,
            now_ms=now_ms,
            is_read=change.op is Op.READ,
        )
        for topic, keep in topics:
            if keep == "all":
                self._publisher.write(topic, records[0])
            elif change.op is Op.TRUNCATE:
                # It has no key, and a compacted topic has a record for each row that is gone.
                for key in self._publisher.live_keys(topic):
                    self._publisher.write(topic, Record(key=key, value=None))
            else:
                for record in whole:
                    self._publisher.write(topic, record)

    def _write_rows(self, rows: ReadRows) -> None:
        now_ms = self._clock.now_ms()
        topics = [
            topic
            for topic, _ in self._topics_of.get(rows.table.path) or self._topics(rows.table, is_loading=True)
        ]
        self._schemas.follow(
            rows.table,
            topics,
            source=rows.source,
            committed_ms=rows.committed_ms,
            now_ms=now_ms,
            is_read=True,
        )
        layout = self._envelope.layout(rows, now_ms)
        for topic in topics:
            self._publisher.write_rows(topic, layout, rows.columns)

    def _write_changes(self, rows: ChangedRows) -> None:
        # Only sources that read rows in blocks need Arrow.
        from headrace.cdc.change_records import records_by_table

        now_ms = self._clock.now_ms()
        orders = self._transactions.places(rows)
        for found in records_by_table(rows, orders, self._envelope, now_ms):
            topics = self._topics_of.get(found.table.path) or self._topics(found.table)
            self._schemas.follow(
                found.table,
                [topic for topic, _ in topics],
                source=found.source,
                committed_ms=rows.committed_ms,
                now_ms=now_ms,
            )
            for topic, keep in topics:
                if keep == "all":
                    self._publisher.write_all(topic, found.keys, found.values)
                else:
                    self._publisher.write_all(topic, *found.with_tombstones())

    def _switch(self, *, to_rows: bool) -> None:
        """Rows and single changes are written in different ways, and each way commits what it has written."""
        if self.has_position:
            self.commit()
        if to_rows:
            self._publisher.begin_rows()
        else:
            self._publisher.end_rows()
        self._has_rows = to_rows

    def _write_mark(self, record: Record) -> None:
        if self._marks is None:
            self._marks = f"{self._capture.name}.transaction"
            self._ensure(self._marks, TOPIC_CONFIGS["all"])
        self._publisher.write(self._marks, record)

    def _end_loading(self) -> None:
        # Before the position after the snapshot is committed: a crash in between repeats it.
        for topic in self._loading:
            self._publisher.compact(topic)
        self._loading.clear()

    def _topics(self, table: Table, *, is_loading: bool = False) -> list[tuple[str, str]]:
        """The topics of a table whose first change this is, and what each keeps."""
        name = topic_name(self._capture.name, table)
        both = [(name, "latest"), (f"{name}{CHANGES_SUFFIX}", "all")]
        for path, others in self._topics_of.items():
            if {topic for topic, _ in both} & {topic for topic, _ in others}:
                raise BadCapture(
                    f"tables {table.name} and {'.'.join(path)} would share topic {name}",
                    hint="a topic has only letters, digits, '.', '_' and '-'; capture one of them with --tables",
                )
        wanted = self._capture.keep_of(table.name)
        topics: list[tuple[str, str]] = both if wanted == "both" else [(name, wanted)]
        for topic, keep in topics:
            if keep == "all" or not is_loading:
                self._ensure(topic, TOPIC_CONFIGS[keep])
            elif self._publisher.ensure_loading(topic, partitions=self._partitions):
                self._loading.add(topic)
        self._topics_of[table.path] = topics
        return topics

    def _ensure(self, topic: str, config: dict[str, str]) -> None:
        self._publisher.ensure_topic(topic, partitions=self._partitions, config=config)


def topic_name(capture: str, table: Table) -> str:
    """As Debezium names it: characters that a topic cannot have become `_`."""
    return "".join(
        each if each.isascii() and (each.isalnum() or each in "._-") else "_"
        for each in f"{capture}.{table.name}"
    )
