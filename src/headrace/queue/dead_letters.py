"""The dead letters of a group: list, redrive and purge them.

A consumer group of its own commits the offset up to which the letters were redriven. So several people can redrive at
the same time, a crash loses nothing, and the letters stay in their topic until they are purged.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage
from msgspec import Struct

from headrace.dead_letters import dead_letter_topic
from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.settings import client_config, require_broker
from headrace.queue.errors import QueueError, queue_errors
from headrace.queue.group_settings import read_settings
from headrace.queue.letters import DeadLetter, read_letter, redriven_headers
from headrace.queue.message import Place, headers_of

REDRIVE_BATCH = 500
"""Letters that are redriven between two commits: a crash redrives at most these twice."""

# As the client has it.
ANY_PARTITION = -1
NOW = 0

IDLE_S_MAX = 20.0
"""A broker delivers records that exist within milliseconds; this is for a broker that hangs."""


class NoDeadLetters(QueueError):
    """The group has no dead-letter topic, or the letter does not exist."""


class Redriven(Struct, frozen=True, kw_only=True):
    """How many letters were redriven, and how many were not."""

    redriven: int
    left: int
    """They do not match, and are still listed afterwards."""


class _Span(Struct, frozen=True, kw_only=True):
    """The offsets of one partition of the dead-letter topic: its start, the position of redrives, and its end."""

    start: int
    done: int
    end: int


class DeadLetters:
    """The dead letters of one group.

    letters = DeadLetters("senders")
    for letter in letters.read():
        print(letter.original, letter.reason)
    letters.redrive()

    `bootstrap` is by default that of the commands, as for `Queue`.
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
        """How many letters were not redriven. Letters of other groups in the same topic count too: none is read."""
        try:
            spans = self._spans()
        except NoDeadLetters:
            return 0
        return sum(span.end - span.done for span in spans.values())

    def read(self) -> Iterator[DeadLetter]:
        """The group's letters that were not redriven, up to the current end, oldest first in each partition."""
        for number, span in self._spans().items():
            yield from self._read(number, span.done, span.end)

    def get(self, partition: int, offset: int) -> DeadLetter:
        """One letter, by its partition and offset in the dead-letter topic."""
        spans = self._spans()
        span = spans.get(partition)
        if span is not None and span.start <= offset < span.end:
            for letter in self._read(partition, offset, offset + 1):
                return letter
        raise NoDeadLetters(
            f"{self.topic} has no letter {partition}:{offset} of group {self.group}",
            hint=f"`headrace queue dead list {self.group}` lists them",
        )

    # Redriving

    def redrive(
        self,
        is_wanted: Callable[[DeadLetter], bool] = lambda letter: True,
        *,
        on_progress: Callable[[int], None] = lambda count: None,
    ) -> Redriven:
        """Write letters to their original topics again, with key, value, headers and a count of redrives.

        A letter that is not wanted is written again to the end of the dead-letter topic, so that one offset per
        partition is the position. It is committed once all letters before it are stored: a crash loses none, and
        duplicates at most the last `REDRIVE_BATCH` letters.
        """
        producer = Producer(self._cluster.client_config(acks="all", enable_idempotence=True))
        redriven = left = 0
        for number, span in self._spans().items():
            letters = self._read_raw(number, span.done, span.end)
            for batch in _batches(letters, REDRIVE_BATCH):
                failed: list[KafkaError] = []
                for raw in batch:
                    letter = _letter(raw)
                    if not self._is_ours(letter):
                        continue
                    if letter.original and is_wanted(letter):
                        self._send_back(producer, letter, failed)
                        redriven += 1
                    else:
                        self._keep(producer, raw, failed)
                        left += 1
                self._finish(producer, failed)
                self._commit(number, (batch[-1].offset() or 0) + 1)
                on_progress(redriven)
            self._commit(number, span.end)
        return Redriven(redriven=redriven, left=left)

    def _send_back(self, producer: Producer, letter: DeadLetter, failed: list[KafkaError]) -> None:
        """To its original partition: its producer may have chosen the partition by the key, in its own way."""
        assert letter.original is not None
        topic = letter.original.topic
        if topic not in self._partition_counts:
            with queue_errors():
                self._partition_counts[topic] = len(self._cluster.topics().get(topic, ()))
        is_there = 0 <= letter.original.partition < self._partition_counts[topic]
        self._produce(
            producer,
            topic,
            letter.key,
            letter.value,
            redriven_headers(letter),
            failed,
            partition=letter.original.partition if is_there else ANY_PARTITION,
        )

    def _keep(self, producer: Producer, raw: KafkaMessage, failed: list[KafkaError]) -> None:
        written_ms = raw.timestamp()[1]
        self._produce(
            producer, self.topic, raw.key(), raw.value(), headers_of(raw), failed, timestamp_ms=written_ms
        )

    def _produce(
        self,
        producer: Producer,
        topic: str,
        key: bytes | None,
        content: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        failed: list[KafkaError],
        *,
        partition: int = ANY_PARTITION,
        timestamp_ms: int = NOW,
    ) -> None:
        def on_delivery(error: KafkaError | None, _message: KafkaMessage) -> None:
            if error is not None:
                failed.append(error)

        while True:
            try:
                producer.produce(
                    topic,
                    content,
                    key,
                    headers=[*headers],
                    on_delivery=on_delivery,
                    partition=partition,
                    timestamp=timestamp_ms,
                )
                return
            except BufferError:
                producer.poll(0.1)

    def _finish(self, producer: Producer, failed: list[KafkaError]) -> None:
        unsent = producer.flush(self._timeout_s)
        if failed or unsent:
            why = failed[0].str() if failed else f"no answer within {self._timeout_s} s"
            raise QueueError(
                f"not all letters could be redriven: {why}",
                hint="run it again: it continues after the last commit",
            )

    # Purging

    def purge(self) -> int:
        """Delete all letters of the dead-letter topic, redriven or not; how many there were."""
        spans = self._spans()
        for number, span in spans.items():
            for raw in self._read_raw(number, span.start, span.end):
                if not self._is_ours(letter := _letter(raw)):
                    raise QueueError(
                        f"{self.topic} has letters of group {letter.group} too, such as {letter.place}",
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
                f"group {self.group} has no dead letters: there is no topic {self.topic}",
                hint="it is created with the first message that is rejected or delivered too often",
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
            letter = _letter(raw)
            if self._is_ours(letter):
                yield letter

    def _is_ours(self, letter: DeadLetter) -> bool:
        """Groups may share a topic. A letter without a group belongs to all of them."""
        return letter.group in ("", self.group)

    def _read_raw(self, number: int, first: int, end: int) -> Iterator[KafkaMessage]:
        if first >= end:
            return
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(self.topic, number, first)])
            idle_since_s = time.monotonic()
            while time.monotonic() < idle_since_s + IDLE_S_MAX:
                message = consumer.poll(0.5)
                if message is None:
                    continue
                idle_since_s = time.monotonic()
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise QueueError(f"{self.topic} can't be read: {error.str()}")
                # The last offsets may have no records: transaction markers, or records that compaction removed.
                offset = message.offset() or 0
                if error is None and offset < end:
                    yield message
                if offset >= end - (error is None):
                    return
            raise QueueError(f"{self.topic} can't be read: no record within {IDLE_S_MAX} s")
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer(
            self._cluster.client_config(
                group_id=self.progress_group,
                enable_auto_commit=False,
                enable_partition_eof=True,
                auto_offset_reset="earliest",
            )
        )

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


def _letter(raw: KafkaMessage) -> DeadLetter:
    place = Place(raw.topic() or "", raw.partition() or 0, raw.offset() or 0)
    return read_letter(
        place=place,
        timestamp_ms=raw.timestamp()[1],
        key=raw.key(),
        content=raw.value(),
        headers=headers_of(raw),
    )


def _batches(messages: Iterable[KafkaMessage], size: int) -> Iterator[list[KafkaMessage]]:
    batch: list[KafkaMessage] = []
    for message in messages:
        batch.append(message)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
