"""Reads the topic of a target in a thread, as a member of its consumer group, and commits what is done.

Several processes may deliver for a target, each on a machine of its own: the group divides the partitions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import request_failed
from headrace.webhooks.outgoing.message import Outgoing, outgoing
from headrace.webhooks.outgoing.progress import Mark, Place, Progress
from headrace.webhooks.outgoing.selection import Selection
from headrace.webhooks.outgoing.target import Target

POLL_S = 0.1
"""How long the thread waits for records, until it looks whether there is room again."""

BATCH_RECORDS_MAX = 500
"""By so many the bound on pending messages may be exceeded."""

COMMIT_S = 0.5
"""What was delivered since the last commit is delivered again after a crash, with the same ids."""

SESSION_MS = 10_000
"""So long a process that starts again after a crash waits for its partitions. The client sends heartbeats in a thread
of its own, also while Python is busy."""

LOOK_UP_S = 10.0
RETRY_S = 0.5

_HARMLESS = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._PARTITION_EOF)
_NO_OFFSET = -1001
_BEGINNING = -2


class TopicSource:
    """The callbacks are called in its thread."""

    def __init__(
        self,
        target: Target,
        cluster: Cluster,
        progress: Progress,
        *,
        on_messages: Callable[[Sequence[Outgoing]], None],
        on_forget: Callable[[Sequence[Place]], None],
        has_room: Callable[[], bool],
    ) -> None:
        self._target = target
        self._cluster = cluster
        self._progress = progress
        self._selection = Selection(target)
        self._on_messages = on_messages
        self._on_forget = on_forget
        self._has_room = has_room
        self._is_closed = False
        self._is_paused = False
        self._committed_s = 0.0
        self.skipped = 0
        """Records that the target does not get."""
        self.error = ""
        """Why it can't read or commit at the moment."""
        self.failure: BaseException | None = None
        self._consumer = Consumer(self._config())
        self._thread = threading.Thread(target=self._run, name=f"webhook-{target.name}", daemon=True)

    def _config(self) -> dict[str, Any]:
        return {
            **self._cluster.client_config(
                group_id=self._target.group,
                client_id=self._target.group,
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                # Partitions that are added have no committed offset. `add` commits that of all others.
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                partition_assignment_strategy="cooperative-sticky",
                session_timeout_ms=SESSION_MS,
                allow_auto_create_topics=False,
                queued_max_messages_kbytes=16_384,
                reconnect_backoff_max_ms=1_000,
                fetch_wait_max_ms=100,
                topic_metadata_refresh_interval_ms=10_000,
            ),
            "error_cb": lambda _error: None,
        }

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Commit what is done, and leave the group."""
        self._is_closed = True
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._consumer.subscribe(
                [self._target.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
            while not self._is_closed:
                self._adapt()
                self._poll()
                if time.monotonic() >= self._committed_s + COMMIT_S:
                    self._commit()
        except BaseException as error:
            self.failure = error
        finally:
            self._consumer.close()  # it commits what is done: its partitions are revoked

    # --- reading ---

    def _adapt(self) -> None:
        """Without room, the partitions are paused: the member stays in its group, and the broker keeps the records."""
        if self._has_room() == self._is_paused:
            assigned = self._consumer.assignment()
            if self._is_paused:
                self._consumer.resume(assigned)
            else:
                self._consumer.pause(assigned)
            self._is_paused = not self._is_paused

    def _poll(self) -> None:
        try:
            first = self._consumer.poll(POLL_S)
            if first is None:
                return
            raw = [first, *self._consumer.consume(BATCH_RECORDS_MAX - 1, timeout=0)]
        except KafkaException as error:
            self._failed(error.args[0])
            return
        messages = []
        for each in raw:
            if (error_of := each.error()) is not None:
                self._failed(error_of)
            elif (message := self._message(each)) is not None:
                messages.append(message)
        if messages:
            self._on_messages(messages)

    def _message(self, raw: Message) -> Outgoing | None:
        self.error = ""
        place, offset = _place(raw), cast("int", raw.offset())
        if self._progress.is_done(place, offset):
            self._progress.skip(place, offset)
            return None
        message = outgoing(raw, self._target)
        if not self._selection.wants(message):
            self.skipped += 1
            self._progress.skip(place, offset)
            return None
        self._progress.read(place, offset)
        return message

    def _failed(self, error: KafkaError) -> None:
        if error.fatal():
            raise KafkaException(error)
        if error.code() not in _HARMLESS:
            self.error = request_failed(error, f"reading topic {self._target.topic}").message

    # --- the group ---

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        starts = []
        for each in self._committed(consumer, partitions):
            has_offset = each.offset != _NO_OFFSET
            start = each.offset if has_offset else 0
            self._progress.start((each.topic, each.partition), start, each.metadata or "")
            starts.append(TopicPartition(each.topic, each.partition, start if has_offset else _BEGINNING))
        if starts:
            consumer.incremental_assign(starts)
            if self._is_paused:
                consumer.pause(starts)

    def _committed(self, consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        while not self._is_closed and partitions:
            try:
                return consumer.committed(partitions, timeout=LOOK_UP_S)
            except KafkaException as error:
                self.error = request_failed(error.args[0], "reading the committed offsets").message
                time.sleep(RETRY_S)
        return []

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._forget(consumer, partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._forget(consumer, partitions)

    def _forget(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = [(each.topic, each.partition) for each in partitions]
        self._progress.forget(places)
        self._on_forget(places)
        consumer.incremental_unassign(partitions)

    # --- committing ---

    def _commit(self) -> None:
        self._committed_s = time.monotonic()
        marks = self._progress.changed()
        if not marks:
            return
        offsets = [_marked(place, mark) for place, mark in marks.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            # It is tried again with the next commit.
            self.error = request_failed(error.args[0], f"committing offsets of {self._target.group}").message
        else:
            self._progress.committed(marks)


def _place(raw: Message) -> Place:
    return cast("str", raw.topic()), cast("int", raw.partition())


def _marked(place: Place, mark: Mark) -> TopicPartition:
    return TopicPartition(place[0], place[1], mark.offset, mark.metadata)
