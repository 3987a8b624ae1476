"""The dead letters of a group or a job: list, redrive, discard and purge them.

A consumer group of its own commits the offset up to which the letters were redriven or discarded. So several people can
redrive at the same time, a crash loses nothing, and the letters stay in their topic until they are purged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage
from msgspec import Struct

from headrace.dead_letters import dead_letter_topic
from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.settings import client_config, require_broker
from headrace.queue.errors import MessageNotStored, QueueError, queue_errors
from headrace.queue.group_settings import read_settings
from headrace.queue.letters import DeadLetter, read_letter, redriven_headers
from headrace.queue.message import MessageId, headers_of
from headrace.queue.outbox import ANY_PARTITION, Outbox
from headrace.queue.partition_reader import read_partition
from headrace.queue.redriven import RedrivenRecords

REDRIVE_BATCH = 500
"""Letters that are redriven between two commits: a crash redrives at most these twice."""


class NoDeadLetters(QueueError):
    """The group or job has no dead-letter topic, or the letter does not exist."""


class Redriven(Struct, frozen=True, kw_only=True):
    """How many letters were redriven, and how many were not."""

    redriven: int
    left: int
    """They do not match or can't be redriven, and are still listed afterwards."""


class Discarded(Struct, frozen=True, kw_only=True):
    """How many letters were discarded, and how many were not."""

    discarded: int
    left: int
    """They do not match, and are still listed afterwards."""


class _Span(Struct, frozen=True, kw_only=True):
    """The offsets of one partition of the dead-letter topic: its start, the position of redrives, and its end."""

    start: int
    done: int
    end: int


class _Batch(Struct, frozen=True, kw_only=True):
    """Letters of one partition of the dead-letter topic, and the offset after them."""

    partition: int
    end: int
    letters: list[tuple[KafkaMessage, DeadLetter]]


class DeadLetters:
    """The dead letters of one group, or of one job on Spark.

        letters = DeadLetters("senders")
        for letter in letters.read():
            print(letter.original, letter.reason)
        letters.redrive()

    `bootstrap` is by default that of the commands, as for `Queue`; `topic` is by default the group's setting, else
    dlq.NAME.
    """

    def __init__(
        self,
        group: str,
        *,
        bootstrap: str | None = None,
        topic: str | None = None,
        config: dict[str, Any] | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        self.group = group
        address = client_config(bootstrap, config)["bootstrap.servers"]
        self._cluster = Cluster(address, timeout_s=timeout_s, config=config)
        self._timeout_s = timeout_s
        self._partition_counts: dict[str, int] = {}
        with queue_errors():
            require_broker(address, timeout_s)
            self.topic = (
                topic or read_settings(self._cluster, group).dead_letter_topic or dead_letter_topic(group)
            )

    @property
    def progress_group(self) -> str:
        """The consumer group whose committed offsets are the position of redrives."""
        return f"{self.topic}.redrive.{self.group}"

    # Reading

    def count(self) -> int:
        """How many letters were neither redriven nor discarded, without reading any.

        Letters of other groups in the same topic count too, and so do several letters of one record.
        """
        try:
            spans = self._spans()
        except NoDeadLetters:
            return 0
        return sum(span.end - span.done for span in spans.values())

    def read(self) -> Iterator[DeadLetter]:
        """The letters that were neither redriven nor discarded, up to the current end, oldest first in each partition.

        If a job has several letters of one record with the same reason, because it was reset or because it ran over
        bounded rows more than once, the first one is returned.
        """
        redriven = self._redriven()
        seen: set[tuple[str, str]] = set()
        for number, span in self._spans().items():
            for letter in self._read(number, span.done, span.end):
                if redriven.has(letter) or (letter.record, letter.reason) in seen:
                    continue
                if letter.record is not None:
                    seen.add((letter.record, letter.reason))
                yield letter

    def get(self, partition: int, offset: int) -> DeadLetter:
        """One letter, by its partition and offset in the dead-letter topic."""
        spans = self._spans()
        span = spans.get(partition)
        if span is not None and span.start <= offset < span.end:
            for letter in self._read(partition, offset, offset + 1):
                return letter
        raise NoDeadLetters(
            f"{self.topic} has no letter {partition}:{offset} of group {self.group}",
            hint="`headrace queue dead list` lists those of a group, `headrace job dead list` those of a job",
        )

    # Redriving

    def redrive(
        self,
        is_wanted: Callable[[DeadLetter], bool] = lambda letter: True,
        *,
        on_progress: Callable[[int], None] = lambda count: None,
    ) -> Redriven:
        """Write letters to their original topics again, with key, value, headers and a count of redrives.

        All readers of the topic get the record. A record of a job that was redriven for one letter is not redriven for
        another one, of the same job or another. Rows that a sink rejected, late rows and truncated values can't be
        redriven: their letters do not have the original record.

        A letter that is not wanted is written again to the end of the dead-letter topic, so that one offset per
        partition is the position. It is committed once all letters before it are stored: a crash loses none, and
        duplicates at most the last `REDRIVE_BATCH` letters.
        """
        redriven = self._redriven()
        count = left = 0
        with self._outbox() as outbox:
            for batch in self._pending_batches():
                stored: list[Future[MessageId]] = []
                again: list[DeadLetter] = []
                for raw, letter in batch.letters:
                    if redriven.has(letter):
                        continue
                    if letter.original and letter.can_be_redriven and is_wanted(letter):
                        stored.append(self._redrive(outbox, letter, letter.original))
                        redriven.add(letter)
                        again.append(letter)
                    else:
                        stored.append(self._keep(outbox, raw))
                        left += 1
                _wait(stored)
                _wait(redriven.store(outbox, again))
                self._commit(batch.partition, batch.end)
                count += len(again)
                on_progress(count)
        return Redriven(redriven=count, left=left)

    # Discarding

    def discard(
        self,
        is_wanted: Callable[[DeadLetter], bool] = lambda letter: True,
        *,
        on_progress: Callable[[int], None] = lambda count: None,
    ) -> Discarded:
        """Remove letters from the list without redriving them. They stay in their topic until it is purged."""
        discarded = left = 0
        with self._outbox() as outbox:
            for batch in self._pending_batches():
                kept = [raw for raw, letter in batch.letters if not is_wanted(letter)]
                _wait([self._keep(outbox, raw) for raw in kept])
                self._commit(batch.partition, batch.end)
                left += len(kept)
                discarded += len(batch.letters) - len(kept)
                on_progress(discarded)
        return Discarded(discarded=discarded, left=left)

    def _outbox(self) -> closing[Outbox]:
        return closing(Outbox(self._cluster.client_config(), self._timeout_s))

    def _redriven(self) -> RedrivenRecords:
        redriven = RedrivenRecords(self._cluster)
        redriven.load()
        return redriven

    def _pending_batches(self) -> Iterator[_Batch]:
        """The letters that are listed now. The position is after a batch when it is committed."""
        for number, span in self._spans().items():
            for batch in _batches(self._read_raw(number, span.done, span.end), REDRIVE_BATCH):
                pairs = ((raw, read_letter(raw)) for raw in batch)
                yield _Batch(
                    partition=number,
                    end=(batch[-1].offset() or 0) + 1,
                    letters=[pair for pair in pairs if self._is_ours(pair[1])],
                )
            yield _Batch(partition=number, end=span.end, letters=[])

    def _redrive(self, outbox: Outbox, letter: DeadLetter, original: MessageId) -> Future[MessageId]:
        """To its original partition: its producer may have chosen the partition by the key, in its own way."""
        topic = original.topic
        if topic not in self._partition_counts:
            with queue_errors():
                self._partition_counts[topic] = len(self._cluster.topics().get(topic, ()))
        exists = 0 <= original.partition < self._partition_counts[topic]
        return outbox.send_when_room(
            topic,
            letter.value,
            letter.key,
            redriven_headers(letter),
            partition=original.partition if exists else ANY_PARTITION,
        )

    def _keep(self, outbox: Outbox, raw: KafkaMessage) -> Future[MessageId]:
        return outbox.send_when_room(
            self.topic, raw.value(), raw.key(), headers_of(raw), timestamp_ms=raw.timestamp()[1]
        )

    # Purging

    def purge(self) -> int:
        """Delete all letters of the dead-letter topic, listed or not; how many there were."""
        spans = self._spans()
        for number, span in spans.items():
            for raw in self._read_raw(number, span.start, span.end):
                if not self._is_ours(letter := read_letter(raw)):
                    raise QueueError(
                        f"{self.topic} has letters of {letter.group} too, such as {letter.id}",
                        hint="delete the topic, or set its retention, to delete all of them",
                    )
        with queue_errors():
            self._cluster.delete_records(
                {Partition(self.topic, number): span.end for number, span in spans.items()}
            )
        for number, span in spans.items():
            self._commit(number, span.end)
        return sum(span.end - span.start for span in spans.values())

    # The topic

    def _spans(self) -> dict[int, _Span]:
        with queue_errors():
            topics = self._cluster.topics()
        if self.topic not in topics:
            raise NoDeadLetters(
                f"{self.group} has no dead letters: there is no topic {self.topic}",
                hint="it is created with the first message that is rejected or delivered too often, or with the first "
                "record that a job can't parse",
            )
        consumer = self._consumer()
        try:
            partitions = [TopicPartition(self.topic, each.number) for each in topics[self.topic]]
            committed = consumer.committed(partitions, timeout=self._timeout_s)
            spans = {}
            for each in committed:
                start, end = consumer.get_watermark_offsets(each, timeout=self._timeout_s)
                spans[each.partition] = _Span(start=start, done=min(max(each.offset, start), end), end=end)
            return spans
        except KafkaException as error:
            raise QueueError(f"{self.topic} can't be read: {error.args[0].str()}") from error
        finally:
            consumer.close()

    def _read(self, number: int, first: int, end: int) -> Iterator[DeadLetter]:
        for raw in self._read_raw(number, first, end):
            letter = read_letter(raw)
            if self._is_ours(letter):
                yield letter

    def _is_ours(self, letter: DeadLetter) -> bool:
        """Groups may share a topic. A letter without a group belongs to all of them."""
        return letter.group in ("", self.group)

    def _read_raw(self, number: int, first: int, end: int) -> Iterator[KafkaMessage]:
        return read_partition(self._cluster.client_config(), self.topic, number, first, end)

    def _consumer(self) -> Consumer:
        return Consumer(self._cluster.client_config(group_id=self.progress_group, enable_auto_commit=False))

    def _commit(self, number: int, offset: int) -> None:
        consumer = self._consumer()
        try:
            consumer.commit(offsets=[TopicPartition(self.topic, number, offset)], asynchronous=False)
        except KafkaException as error:
            raise QueueError(
                f"the position of the redrive can't be committed: {error.args[0].str()}",
                hint="run it again; some letters may be redriven twice",
            ) from error
        finally:
            consumer.close()


def matching(pattern: str) -> Callable[[DeadLetter], bool]:
    """Letters whose reason, original topic, key or value matches the regular expression."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise QueueError(f"{pattern!r} is not a regular expression: {error}") from error

    def is_match(letter: DeadLetter) -> bool:
        topic = letter.original.topic if letter.original else ""
        texts = [letter.reason, topic, *(_text(each) for each in (letter.key, letter.value))]
        return any(compiled.search(text) for text in texts)

    return is_match


def _text(content: bytes | None) -> str:
    return "" if content is None else content.decode(errors="replace")


def _wait(stored: Iterable[Future[MessageId]]) -> None:
    try:
        for each in stored:
            each.result()
    except MessageNotStored as error:
        raise QueueError(
            f"not all letters could be redriven: {error.message}",
            hint="run it again: it continues after the last commit",
        ) from error


def _batches(messages: Iterable[KafkaMessage], size: int) -> Iterator[list[KafkaMessage]]:
    batch: list[KafkaMessage] = []
    for message in messages:
        batch.append(message)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
