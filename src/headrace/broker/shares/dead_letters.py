"""Dead letters: records that were rejected or delivered too often, copied to the group's dead-letter topic once.

Three steps, in this order, each on disk before the next: the record is marked as being given up (it is never delivered
again), its letter is written, the record is marked as given up. After a crash, records that are only being given up may
or may not have their letter: the dead-letter topic is looked through for it, and only what is missing is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.groups.storage import records_in
from headrace.broker.internal_topics import INTERNAL_TOPICS
from headrace.broker.shares.reasons import Reasons, reason_key
from headrace.broker.shares.share_partition import SharePartition
from headrace.broker.shares.window import Burial
from headrace.errors import HeadraceError
from headrace.log.errors import BatchTooLarge
from headrace.records.record import Record, encode_batch

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.broker.services import Services

logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""How long to wait after a letter could not be written: the topic may be missing, or its disk broken."""

LETTERS_AT_ONCE_MAX = 500
"""Letters that are read and written together: bounds the memory for their contents."""

# Names of KIP-1191. The reason is in «message».
TOPIC_HEADER = "__dlq.errors.topic"
PARTITION_HEADER = "__dlq.errors.partition"
OFFSET_HEADER = "__dlq.errors.offset"
GROUP_HEADER = "__dlq.errors.group"
DELIVERY_COUNT_HEADER = "__dlq.errors.delivery.count"
MESSAGE_HEADER = "__dlq.errors.message"
_IDENTITY = (GROUP_HEADER, TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER)

TOPIC_CONFIGS = {"retention.ms": "-1"}
"""Of a dead-letter topic that is made by itself: what nobody has looked at yet should not go by its age."""


class DeadLetterTopicMissing(HeadraceError):
    """The group's dead-letter topic is not there, and the group does not want it to be made."""


class _Job(NamedTuple):
    share: SharePartition
    burial: Burial
    is_perhaps_written: bool


class DeadLetters:
    def __init__(self, services: Services, on_buried: Callable[[SharePartition, int, int], None]) -> None:
        self._services = services
        self._on_buried = on_buried
        self._reasons = Reasons(services)
        self._jobs: deque[_Job] = deque()
        self._task: asyncio.Task[None] | None = None
        self._failed: list[_Job] = []
        self._retry: asyncio.TimerHandle | None = None
        self._failing_groups: set[str] = set()

    def bury(
        self, share: SharePartition, burials: Iterable[Burial], *, is_perhaps_written: bool = False
    ) -> None:
        """Write the letters of records whose giving up is on disk; later, and however often it takes."""
        self._begin(_Job(share, part, is_perhaps_written) for one in burials for part in _parts(one))

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._retry is not None:
            self._retry.cancel()

    async def _run(self) -> None:
        try:
            while self._jobs:
                jobs = self._take_like_the_first()
                if not await self._write(jobs):
                    self._try_again_later(jobs)
        finally:
            self._task = None

    def _try_again_later(self, jobs: list[_Job]) -> None:
        """Others need not wait for a group whose letters can't be written."""
        self._failed += jobs
        if self._retry is None:
            self._retry = self._services.loop.call_later(RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        failed, self._failed = self._failed, []
        self._begin(failed)

    def _begin(self, jobs: Iterable[_Job]) -> None:
        self._jobs.extend(jobs)
        if self._jobs and self._task is None:
            self._task = self._services.loop.create_task(self._run())

    def _take_like_the_first(self) -> list[_Job]:
        """Jobs of one group and partition, in their order, up to a bound."""
        jobs = [self._jobs.popleft()]
        letters = _records(jobs[0])
        while self._jobs and self._jobs[0].share is jobs[0].share and letters < LETTERS_AT_ONCE_MAX:
            if self._jobs[0].is_perhaps_written != jobs[0].is_perhaps_written:
                break
            letters += _records(self._jobs[0])
            jobs.append(self._jobs.popleft())
        return jobs

    async def _write(self, jobs: list[_Job]) -> bool:
        share = jobs[0].share
        if share.is_gone:
            return True
        try:
            await self._write_letters(share, jobs)
        except (HeadraceError, OSError) as error:
            share.counters.dead_letter_failures += 1
            if share.key.group_id not in self._failing_groups:
                self._failing_groups.add(share.key.group_id)
                logger.error(
                    "dead letters of group %r can't be written, their records wait: %s",
                    share.key.group_id,
                    error,
                )
            return False
        self._failing_groups.discard(share.key.group_id)
        for job in jobs:
            share.counters.dead_letters += _records(job)
            self._on_buried(share, job.burial.first, job.burial.last)
        return True

    async def _write_letters(self, share: SharePartition, jobs: list[_Job]) -> None:
        config = self._services.group_configs.share(share.key.group_id)
        if not config.dead_letter_topic:
            return  # it was taken away in the meantime: they are only given up
        target = self._target(share, config.dead_letter_topic, config.creates_dead_letter_topic)
        await self._reasons.read_on()
        run = self._services.loop.run_in_executor
        letters = await run(
            self._services.disk_threads, self._letters, share, jobs, config.copies_dead_letters
        )
        if jobs[0].is_perhaps_written:
            written = await run(self._services.disk_threads, self._written, target)
            letters = [letter for letter in letters if _identity(letter) not in written]
        if letters:
            self._append(target, letters)
            if not target.reads_unsynced:
                await self._services.flusher.flushed(target)

    def _target(self, share: SharePartition, name: str, may_create: bool) -> Partition:
        """Kafka's choice: the partition of the same number, as far as there are so many."""
        topics = self._services.topics
        if name == share.partition.topic_name or name in INTERNAL_TOPICS:
            raise DeadLetterTopicMissing(
                f"{name} can't be the dead-letter topic of {share.partition.topic_name}",
                hint="name another topic",
            )
        topic = topics.get(name)
        if topic is None:
            if not may_create:
                raise DeadLetterTopicMissing(
                    f"the dead-letter topic {name} is not there",
                    hint="create it, or set errors.deadletterqueue.auto.create.topics.enable for the group",
                )
            topic = topics.create(name, self._services.settings.default_partitions, TOPIC_CONFIGS)
        return topic.partitions[share.partition.index % len(topic.partitions)]

    def _append(self, target: Partition, letters: list[Record]) -> None:
        now_ms = self._services.clock.now_ms()
        try:
            size_bytes = self._append_batch(target, letters, now_ms)
        except BatchTooLarge:
            if len(letters) > 1:
                for letter in letters:
                    self._append(target, [letter])
                return
            # The record fits into its own topic but not into this one: say at least which it was.
            headers = tuple(header for header in letters[0].headers if header[0].startswith("__dlq."))
            size_bytes = self._append_batch(
                target, [replace(letters[0], value=None, headers=headers)], now_ms
            )
        if target.reads_unsynced:
            target.grown(size_bytes)

    def _append_batch(self, target: Partition, letters: list[Record], now_ms: int) -> int:
        records = [replace(letter, offset=index, timestamp_ms=now_ms) for index, letter in enumerate(letters)]
        batch = encode_batch(records)
        if len(batch) > target.log.config.batch_bytes_max:
            raise BatchTooLarge(f"{len(batch)} bytes of dead letters")
        target.log.append(batch, now_ms=now_ms, from_client=False)
        return len(batch)

    # In a thread

    def _letters(self, share: SharePartition, jobs: list[_Job], is_copied: bool) -> list[Record]:
        letters: list[Record] = []
        for job in jobs:
            burial = job.burial
            originals = self._originals(share, burial) if is_copied else {}
            for offset in range(burial.first, burial.last + 1):
                empty = Record(offset=offset, timestamp_ms=0, key=None, value=None)
                letters.append(self._letter(share, burial, originals.get(offset, empty)))
        return letters

    def _originals(self, share: SharePartition, burial: Burial) -> dict[int, Record]:
        found: dict[int, Record] = {}
        log = share.partition.log
        if burial.last < log.start_offset:
            return found  # retention was faster
        bytes_max = self._services.settings.decompressed_batch_bytes_max
        for record in records_in(log, bytes_max, burial.first):
            if record.offset > burial.last:
                break
            if record.offset >= burial.first:
                found[record.offset] = record
        return found

    def _letter(self, share: SharePartition, burial: Burial, original: Record) -> Record:
        group_id, topic, partition = share.key.group_id, share.partition.topic_name, share.partition.index
        reason = self._reasons.take(reason_key(group_id, topic, partition, original.offset)) or burial.reason
        said = {
            TOPIC_HEADER: topic,
            PARTITION_HEADER: str(partition),
            OFFSET_HEADER: str(original.offset),
            GROUP_HEADER: group_id,
            DELIVERY_COUNT_HEADER: str(burial.delivery_count),
            MESSAGE_HEADER: reason,
        }
        # A record that was put back and died again carries the old ones.
        kept = tuple(header for header in original.headers if header[0] not in said)
        added = tuple((name, text.encode()) for name, text in said.items())
        return replace(original, headers=kept + added)

    def _written(self, target: Partition) -> set[tuple[bytes | None, ...]]:
        """Which records have their letter in the topic. Looked at once after a crash, so it may be read whole."""
        bytes_max = self._services.settings.decompressed_batch_bytes_max
        return {_identity(letter) for letter in records_in(target.log, bytes_max)}


def _identity(letter: Record) -> tuple[bytes | None, ...]:
    headers = dict(letter.headers)
    return tuple(headers.get(name) for name in _IDENTITY)


def _records(job: _Job) -> int:
    return job.burial.last - job.burial.first + 1


def _parts(burial: Burial) -> Iterable[Burial]:
    for first in range(burial.first, burial.last + 1, LETTERS_AT_ONCE_MAX):
        yield burial._replace(first=first, last=min(first + LETTERS_AT_ONCE_MAX - 1, burial.last))
