"""Dead letters: records that were rejected or delivered too often, copied to the group's dead-letter topic once.

Three steps, each durable before the next: the record becomes ARCHIVING (it is never delivered again), its letter is
written, the record becomes ARCHIVED. Letters that are written together are one batch, which the log has
whole or not at all. After a crash, records that are ARCHIVING may or may not have their letter: the broker searches the
dead-letter topic for it, and writes only what is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from headrace.broker.configs.group_configs import GroupConfigs
from headrace.broker.flusher import Flusher
from headrace.broker.partition import Partition, Pending
from headrace.broker.retries import Retries
from headrace.broker.runtime import Runtime
from headrace.broker.shares.letters import Place, fit, letter, offset_in
from headrace.broker.shares.originals import Original, decodable, originals, unread
from headrace.broker.shares.reasons import Reasons, reason_key
from headrace.broker.shares.share_partition import SharePartition
from headrace.broker.shares.window import DeadRecords
from headrace.broker.topics import Topics
from headrace.errors import HeadraceError
from headrace.records.batch import HEADER_BYTES
from headrace.records.compression import Codec
from headrace.records.record import Record, encode_batch

logger = logging.getLogger(__name__)

LETTERS_AT_ONCE_MAX = 2_000
LETTERS_BYTES_MAX = 1_048_576
"""Letters of one batch, and their bytes unless a single letter has more: bounds the memory."""

TOPIC_CONFIGS = {"retention.ms": "-1"}
"""Of a dead-letter topic that the broker creates: unread letters should not expire."""


class _Job(Struct, frozen=True):
    share: SharePartition
    dead: DeadRecords
    is_perhaps_written: bool


class _Letters(Struct, frozen=True):
    """Letters of one batch."""

    batch: bytes
    """Empty if all of them were found in the topic."""
    through: int
    """The last offset that they cover."""


class DeadLetters:
    def __init__(
        self,
        runtime: Runtime,
        *,
        topics: Topics,
        flusher: Flusher,
        configs: GroupConfigs,
        on_written: Callable[[SharePartition, int, int], None],
    ) -> None:
        self._runtime = runtime
        self._topics = topics
        self._flusher = flusher
        self._configs = configs
        self._on_written = on_written
        self._reasons = Reasons(runtime, topics)
        self._jobs: deque[_Job] = deque()
        self._task: asyncio.Task[None] | None = None
        self._retries: Retries[_Job] = Retries(runtime.loop, lambda: self._start(self._retries.take()))
        self._is_closed = False
        self._failing_groups: set[str] = set()
        # Offsets whose letters were found in a dead-letter partition, which is searched once for each share.
        self._found: dict[tuple[SharePartition, Partition], set[int]] = {}

    def write(
        self, share: SharePartition, dead: Iterable[DeadRecords], *, is_perhaps_written: bool = False
    ) -> None:
        """Write the letters of records that are durably ARCHIVING; in the background, with retries."""
        self._start(_Job(share, one, is_perhaps_written) for one in dead)

    def close(self) -> None:
        """The next start writes what is left."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
        self._retries.close()

    def _start(self, jobs: Iterable[_Job]) -> None:
        self._jobs.extend(jobs)
        if self._jobs and self._task is None and not self._is_closed:
            self._task = self._runtime.loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._jobs:
                await self._write(self._next_jobs())
            if not self._retries:
                self._found.clear()
        finally:
            self._task = None

    def _retry_later(self, jobs: Sequence[_Job], error: Exception) -> None:
        """Other groups need not wait for a group whose letters can't be written."""
        share = jobs[0].share
        share.counters["dead_letter_failures"] += 1
        if share.key.group_id not in self._failing_groups:
            self._failing_groups.add(share.key.group_id)
            self._runtime.failures.report(
                f"dead letters of group {share.key.group_id!r} can't be written, their records wait", error
            )
        self._retries.add(jobs)

    def _next_jobs(self) -> list[_Job]:
        """Jobs of one group and partition by their offsets, up to a bound."""
        jobs = [self._jobs.popleft()]
        letters = jobs[0].dead.records
        while self._jobs and self._jobs[0].share is jobs[0].share and letters < LETTERS_AT_ONCE_MAX:
            if self._jobs[0].is_perhaps_written != jobs[0].is_perhaps_written:
                break
            letters += self._jobs[0].dead.records
            jobs.append(self._jobs.popleft())
        return sorted(jobs, key=lambda job: job.dead.first)

    async def _write(self, jobs: list[_Job]) -> None:
        """Write one batch of letters; the rest of the jobs comes next."""
        share = jobs[0].share
        if share.is_deleted:
            return
        config = self._configs.share(share.key.group_id)
        if not config.dead_letter_topic:
            self._end(jobs)  # the config was removed in the meantime: no letters are written
            return
        try:
            target = self._target(share, config.dead_letter_topic, config.creates_dead_letter_topic)
            letters = await self._letters(jobs, target, is_copied=config.copies_dead_letters)
            pending = self._append(target, letters.batch)
        except Exception as error:
            self._retry_later(jobs, error)
            return
        done, left = _split(jobs, letters.through)
        self._jobs.extendleft(reversed(left))
        try:
            await self._flusher.durable(pending)
        except (HeadraceError, OSError) as error:
            self._found.pop((share, target), None)
            self._retry_later([replace(job, is_perhaps_written=True) for job in done], error)
        else:
            self._failing_groups.discard(share.key.group_id)
            self._end(done)

    def _end(self, jobs: Iterable[_Job]) -> None:
        """The letters are durable, or the group has no dead-letter topic any more."""
        for job in jobs:
            share, dead = job.share, job.dead
            for offset in range(dead.first, dead.last + 1):
                self._reasons.forget(reason_key(*_place(share), offset))
            share.counters["dead_letters"] += dead.records
            self._on_written(share, dead.first, dead.last)

    def _target(self, share: SharePartition, name: str, may_create: bool) -> Partition:
        """As in Kafka: the partition of the same number, modulo the number of partitions."""
        if name == share.partition.topic_name:
            raise HeadraceError(
                f"{name} can't be the dead-letter topic of its own records", hint="name another topic"
            )
        topic = self._topics.get(name)
        if topic is None:
            if not may_create:
                raise HeadraceError(
                    f"the dead-letter topic {name} does not exist",
                    hint="create it, or set errors.deadletterqueue.auto.create.topics.enable for the group",
                )
            topic = self._topics.create(name, self._runtime.settings.default_partitions, TOPIC_CONFIGS)
        return topic.partitions[share.partition.index % len(topic.partitions)]

    async def _letters(self, jobs: Sequence[_Job], target: Partition, *, is_copied: bool) -> _Letters:
        share = jobs[0].share
        await self._reasons.read_on()
        found: set[int] = set()
        if jobs[0].is_perhaps_written:
            if (share, target) not in self._found:
                search = partial(_written_letters, share, target)
                self._found[share, target] = await self._runtime.in_thread(search)
            found = self._found[share, target]
        local_start_offset = share.partition.log.segments.local_start_offset
        reads_archive = is_copied and jobs[0].dead.first < local_start_offset
        return await self._runtime.in_thread(
            partial(self._make_letters, jobs, target, is_copied, found), reads_archive=reads_archive
        )

    def _append(self, target: Partition, batch: bytes) -> Pending:
        if not batch:
            return target.pending()  # the letters that were found may not be durable yet
        return target.append(batch, now_ms=self._runtime.clock.now_ms(), from_client=False)

    # In a thread

    def _make_letters(
        self, jobs: Sequence[_Job], target: Partition, is_copied: bool, found: Container[int]
    ) -> _Letters:
        dead = dict(islice(_dead_offsets(jobs), LETTERS_AT_ONCE_MAX))
        offsets = [offset for offset in dead if offset not in found]
        last = next(reversed(dead))
        if not offsets:
            return _Letters(b"", last)
        place = _place(jobs[0].share)
        log = jobs[0].share.partition.log
        records = originals(log, offsets) if is_copied else unread(offsets)
        config = target.log.config
        codec = config.compression if isinstance(config.compression, Codec) else Codec.NONE
        letters = fit(
            (self._letter(place, dead[one.record.offset], one) for one in records),
            now_ms=self._runtime.clock.now_ms(),
            letter_bytes_max=_room(config.batch_bytes_max, codec),
            bytes_max=LETTERS_BYTES_MAX,
        )
        is_all = len(letters) == len(offsets)
        batch = encode_batch(letters, codec=codec, level=config.compression_level)
        return _Letters(batch, last if is_all else offsets[len(letters) - 1])

    def _letter(self, place: Place, dead: DeadRecords, original: Original) -> Record:
        reason = self._reasons.get(reason_key(*place, original.record.offset))
        return letter(place, dead, original, reason or dead.reason)


def _written_letters(share: SharePartition, target: Partition) -> set[int]:
    """The offsets in the window whose letters are in the topic. In a thread."""
    place, first, end = _place(share), share.window.start_offset, share.window.end_offset
    offsets = (offset_in(record, place) for _, record in decodable(target.log))
    return {offset for offset in offsets if offset is not None and first <= offset < end}


def _place(share: SharePartition) -> Place:
    return Place(share.key.group_id, share.partition.topic_name, share.partition.index)


def _room(batch_bytes_max: int, codec: Codec) -> int:
    """How many bytes of letters fit into a batch. Letters that can't be compressed may grow a little."""
    growth_bytes = 0 if codec is Codec.NONE else 64 + batch_bytes_max // 128
    return batch_bytes_max - HEADER_BYTES - growth_bytes


def _dead_offsets(jobs: Iterable[_Job]) -> Iterator[tuple[int, DeadRecords]]:
    for job in jobs:
        for offset in range(job.dead.first, job.dead.last + 1):
            yield offset, job.dead


def _split(jobs: Iterable[_Job], through: int) -> tuple[list[_Job], list[_Job]]:
    """The jobs up to an offset, and those after it."""
    done: list[_Job] = []
    left: list[_Job] = []
    for job in jobs:
        if job.dead.first <= through:
            done.append(replace(job, dead=replace(job.dead, last=min(job.dead.last, through))))
        if job.dead.last > through:
            left.append(replace(job, dead=replace(job.dead, first=max(job.dead.first, through + 1))))
    return done, left
