"""The coordinator of share groups: what each was delivered and has acknowledged; durable, with time-outs.

Everything here happens in the event loop's thread. A request takes effect when its method is called. Methods return
what has to become durable before the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from headrace.broker.client import Client
from headrace.broker.configs.group_configs import GroupConfigs, OffsetReset, ShareConfig
from headrace.broker.configs.share_rules import Rules
from headrace.broker.flusher import Flusher
from headrace.broker.groups.registry import GroupRegistry
from headrace.broker.groups.share import ShareGroup
from headrace.broker.partition import Partition
from headrace.broker.refusals import RequestRefused
from headrace.broker.runtime import Runtime
from headrace.broker.settings import BrokerSettings
from headrace.broker.shares import storage
from headrace.broker.shares.dead_letters import DeadLetters
from headrace.broker.shares.delivery import Reading
from headrace.broker.shares.sessions import SessionKey, ShareSession, ShareSessions
from headrace.broker.shares.share_partition import SharePartition
from headrace.broker.shares.state_writer import StateWriter
from headrace.broker.shares.states import RecordState
from headrace.broker.shares.storage import ShareKey, StoredWindow
from headrace.broker.shares.window import Acknowledgement, AcknowledgeType, Acquired, Burial, Window
from headrace.broker.state_topic import StateTopic
from headrace.broker.tasks import Tasks
from headrace.broker.timers import Timers
from headrace.broker.topics import Topic, Topics
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

LAST_WORDS_S = 5.0
"""How long after leaving its group a member may still acknowledge; clients need milliseconds."""


class ShareCoordinator:
    def __init__(
        self,
        settings: BrokerSettings,
        *,
        runtime: Runtime,
        topics: Topics,
        state: StateTopic,
        flusher: Flusher,
        configs: GroupConfigs,
        registry: GroupRegistry,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._clock = runtime.clock
        self._topics = topics
        self._topic = state
        self._configs = configs
        self._groups = registry.share
        self.sessions = ShareSessions(settings.share_sessions_max)
        self._shares: dict[ShareKey, SharePartition] = {}
        self._by_group: dict[str, dict[ShareKey, SharePartition]] = {}
        self._writer = StateWriter(runtime, state, on_given_up=self._given_up)
        self._dead_letters = DeadLetters(
            settings,
            runtime=runtime,
            topics=topics,
            flusher=flusher,
            configs=configs,
            on_buried=self._buried,
        )
        self._timers: Timers[ShareKey] = Timers(runtime.loop, runtime.clock, self._due)
        self._tasks = Tasks(runtime.loop)
        self._loading: asyncio.Task[Any] | None = None
        self._loaded: asyncio.Future[None] = runtime.loop.create_future()
        self._unavailable: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    # From start to stop

    @property
    def unavailable(self) -> ErrorCode | None:
        """Why every request fails now; None if the coordinator is available."""
        return self._unavailable

    def load(self) -> None:
        """Start to load the states; until that is done, fetches wait and all other requests fail."""
        self._loading = self._tasks.start(self._load())

    async def _load(self) -> None:
        stored = await self._topic.load(storage.StoredWindows, on_failure=self._not_loaded)
        if stored is not None:
            self._set_available(stored.by_key)

    def _not_loaded(self) -> None:
        """Without some states the broker would deliver again what was accepted."""
        self._unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._end_loading()

    def _set_available(self, windows: Mapping[ShareKey, StoredWindow]) -> None:
        self._unavailable = None
        gone = []
        for key, stored in windows.items():
            partition = self._partition(key)
            if partition is None:
                gone.append(key)
                continue
            share = self._add(SharePartition(partition, stored, is_stored=True))
            rules = self.config(share).rules
            self._dead_letters.bury(share, stored.window.unburied(rules), is_perhaps_written=True)
        if gone:
            self._tasks.start(self._remove(gone))
        self._end_loading()
        if windows:
            logger.info(
                "share groups loaded", extra={"groups": len(self._by_group), "partitions": len(windows)}
            )

    def _end_loading(self) -> None:
        if not self._loaded.done():
            self._loaded.set_result(None)

    def close(self) -> None:
        self._unavailable = ErrorCode.NOT_COORDINATOR
        if self._loading is not None:
            self._loading.cancel()
        self._end_loading()
        self._timers.close()
        self._dead_letters.close()
        self._writer.close()
        for share in self._shares.values():
            share.waiters.wake_all()

    async def ready(self) -> None:
        """Wait until states are loaded; raises RequestRefused if they can't be."""
        if not self._loaded.done():
            await asyncio.shield(self._loaded)
        self.require_available()

    def require_available(self) -> None:
        if self._unavailable is not None:
            raise RequestRefused(self._unavailable)

    @property
    def is_closed(self) -> bool:
        return self._unavailable is ErrorCode.NOT_COORDINATOR

    def expire(self) -> None:
        """Keep the topic of states short."""
        if self._unavailable is None:
            self._tasks.start(self._prune())

    async def _prune(self) -> None:
        try:
            await self._writer.prune([share.stored for share in self._shares.values()])
        except (HeadraceError, OSError) as error:
            logger.error("old records of %s can't be deleted now: %s", self._topic.name, error)

    def run_due_timers(self) -> None:
        """Run overdue time-outs now, instead of waiting for the event loop."""
        self._timers.run_due()

    # The partitions of a group

    def config(self, share: SharePartition) -> ShareConfig:
        return self._configs.share(share.key.group_id)

    def of_group(self, group_id: str) -> Collection[SharePartition]:
        return self._by_group.get(group_id, {}).values()

    def group_ids(self) -> list[str]:
        return [*self._by_group]

    def get(self, key: ShareKey) -> SharePartition | None:
        return self._shares.get(key)

    def begin_topic(self, group_id: str, topic: Topic) -> None:
        """Start a group in every partition of a topic that it consumes from now on."""
        keys = [ShareKey(group_id, topic.id, partition.index) for partition in topic.partitions]
        missing = [key for key in keys if key not in self._shares]
        has_grown = keys[0] in self._shares
        for key in missing:
            partition = topic.partitions[key.partition]
            # If the group consumed the topic already, it gets the new partition from its first record on.
            start = partition.log.start_offset if has_grown else self._first_offset(group_id, partition)
            self._keep(self._add(SharePartition(partition, StoredWindow(key, Window(start)))))

    def begin(self, key: ShareKey) -> SharePartition | None:
        """A group on a partition, started if it is new; None if the partition is unknown."""
        if key not in self._shares and self._partition(key) is not None:
            topic = self._topics.get_by_id(key.topic_id)
            assert topic is not None, "its partition was found"
            self.begin_topic(key.group_id, topic)
        return self._shares.get(key)

    def _partition(self, key: ShareKey) -> Partition | None:
        topic = self._topics.get_by_id(key.topic_id)
        if topic is None or not 0 <= key.partition < len(topic.partitions):
            return None
        return topic.partitions[key.partition]

    def _first_offset(self, group_id: str, partition: Partition) -> int:
        log = partition.log
        reset: OffsetReset = self._configs.share(group_id).offset_reset
        if reset.strategy == "earliest":
            return log.start_offset
        if reset.strategy == "by_duration":
            since_ms = self._clock.now_ms() - reset.age_ms
            found = log.reader.offset_for_timestamp(
                since_ms, end_offset=partition.high_watermark, searches_archive=False
            )
            if found is not None:
                return max(found.offset, log.start_offset)
        return partition.high_watermark

    def _add(self, share: SharePartition) -> SharePartition:
        self._shares[share.key] = share
        share.watch()
        self._by_group.setdefault(share.key.group_id, {})[share.key] = share
        self._groups.setdefault(share.key.group_id, ShareGroup(share.key.group_id))
        return share

    # Delivery

    def now_ms(self) -> int:
        """Monotonic time, for locks and delays."""
        return round(self._clock.monotonic_s() * 1000)

    async def stored(self, share: SharePartition) -> None:
        """Wait until the start offset of a group is durable, before the first delivery: a crash must not move it."""
        if not share.is_stored:
            await self._writer.written(share.stored)
            share.is_stored = True

    def acquire(
        self, share: SharePartition, reading: Reading, *, member_id: str, records_max: int, is_strict: bool
    ) -> list[Acquired]:
        rules = self.config(share).rules
        now_ms = self.now_ms()
        acquired = share.window.acquire(
            reading.batches,
            member_id=member_id,
            now_ms=now_ms,
            rules=rules,
            records_max=records_max,
            is_strict=is_strict,
        )
        if acquired:
            share.counters.delivered += sum(one.last - one.first + 1 for one in acquired)
            self._look_again(share, now_ms + rules.lock_ms)
        if share.window.is_changed:
            self._keep(share)
        return acquired

    # Acknowledging

    def acknowledge(
        self, share: SharePartition, acknowledgements: Sequence[Acknowledgement], *, member_id: str
    ) -> asyncio.Future[None] | None:
        """Done when the new states are durable; None if there is nothing to write.

        Raises InvalidRecordState, and changes nothing, if one of them is not locked by the member.
        """
        rules = self.config(share).rules
        was_full = share.window.room(rules) == 0
        now_ms = self.now_ms()
        share.window.acknowledge(acknowledgements, member_id=member_id, now_ms=now_ms, rules=rules)
        types = {one.type for one in acknowledgements}
        _count(share, acknowledgements)
        if AcknowledgeType.RENEW in types:
            self._look_again(share, now_ms + rules.lock_ms)
        if AcknowledgeType.RELEASE in types or was_full:
            self._came_back(share, now_ms, rules)
        return self._keep(share) if share.window.is_changed else None

    def member_left(self, group_id: str, member_id: str, *, is_orderly: bool) -> list[asyncio.Future[None]]:
        """Release what a member has locked, for other members."""
        self.sessions.close(SessionKey(group_id, member_id))
        kept: list[asyncio.Future[None]] = []
        if self.is_closed:
            return kept  # a stop closes all connections, and locks end with the broker
        for share in self.of_group(group_id):
            rules = self.config(share).rules
            before = share.window.records_in(RecordState.ACQUIRED)
            if not before:
                continue
            now_ms = self.now_ms()
            share.window.abandon(member_id, now_ms, rules, is_orderly=is_orderly)
            if share.window.records_in(RecordState.ACQUIRED) != before:
                self._came_back(share, now_ms, rules)
                kept.append(self._keep(share))
        return kept

    def member_leaves(self, group_id: str, member_id: str) -> None:
        """A member left its group. Its last acknowledgements may still be in flight on another connection, and close
        its session. If they don't arrive in time, what it has locked is released."""
        session = self.sessions.get(SessionKey(group_id, member_id))
        if session is None:
            self.member_left(group_id, member_id, is_orderly=True)
        else:
            self._runtime.loop.call_later(LAST_WORDS_S, self._end_session, session)

    def _end_session(self, session: ShareSession) -> None:
        group = self._groups.get(session.key.group_id)
        is_back = group is not None and session.key.member_id in group.members
        if not session.is_closed and not is_back:
            self.member_left(*session.key, is_orderly=True)

    def client_gone(self, client: Client) -> None:
        """A connection broke: release what its members have locked."""
        for session in self.sessions.of_client(client):
            self.member_left(session.key.group_id, session.key.member_id, is_orderly=False)

    def _came_back(self, share: SharePartition, now_ms: int, rules: Rules) -> None:
        if rules.backoff_ms:
            self._look_again(share, now_ms + rules.delay_ms(1))
        share.waiters.wake_first()

    def _buried(self, share: SharePartition, first: int, last: int) -> None:
        rules = self.config(share).rules
        was_full = share.window.room(rules) == 0
        share.window.buried(first, last)
        self._keep(share)
        if was_full:
            share.waiters.wake_first()

    def _keep(self, share: SharePartition) -> asyncio.Future[None]:
        """Store what changed."""
        return self._writer.written(share.stored)

    def _given_up(self, stored: StoredWindow, burials: Sequence[Burial]) -> None:
        """The state of dying records is durable: their dead letters are written next."""
        share = self._shares.get(stored.key)
        if share is not None and share.stored is stored:
            self._dead_letters.bury(share, burials)

    # Time-outs

    def _look_again(self, share: SharePartition, at_ms: int) -> None:
        """Check locks and delays again at this time, or earlier."""
        if share.next_event_ms is None or at_ms < share.next_event_ms:
            share.next_event_ms = at_ms
            self._timers.arm(share.key, max(at_ms - self.now_ms(), 0))

    def _due(self, key: ShareKey) -> None:
        share = self._shares.get(key)
        if share is None or self.is_closed:
            return
        share.next_event_ms = None
        now_ms, rules, window = self.now_ms(), self.config(share).rules, share.window
        before = window.records_in(RecordState.ACQUIRED)
        window.expire(now_ms, rules)
        expired = before - window.records_in(RecordState.ACQUIRED)
        share.counters.expired += expired
        next_ms = window.next_event_ms()
        if next_ms is not None:
            self._look_again(share, next_ms)
        if window.is_changed:
            self._keep(share)
        share.waiters.wake_first()

    # Offsets and groups as a whole

    async def alter_offsets(self, group_id: str, topic: Topic, starts: Mapping[int, int]) -> None:
        """Restart a group without members at other offsets; the states of its records are dropped."""
        written = []
        for index, offset in starts.items():
            key = ShareKey(group_id, topic.id, index)
            old = self._shares.get(key)
            partition = topic.partitions[index]
            start = min(max(offset, partition.log.start_offset), partition.high_watermark)
            stored = StoredWindow(key, Window(start))
            if old is not None:
                old.go()
                stored.state_epoch = old.stored.state_epoch + 1
                stored.snapshot_epoch = old.stored.snapshot_epoch
                stored.ask_for_snapshot()
            share = self._add(SharePartition(partition, stored))
            written.append(self.stored(share))
        await asyncio.gather(*written)

    async def delete_offsets(self, group_id: str, topic: Topic) -> None:
        await self._forget([key for key in self._by_group.get(group_id, {}) if key.topic_id == topic.id])

    async def delete_group(self, group_id: str) -> None:
        """Delete an empty group and its states."""
        self.require_available()
        group = self._groups.get(group_id)
        if group is None:
            raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.members:
            raise RequestRefused(ErrorCode.NON_EMPTY_GROUP)
        await self._forget([*self._by_group.get(group_id, {})])
        if not group.members:
            self._groups.pop(group_id, None)

    def topic_deleted(self, topic: Topic) -> None:
        if self._unavailable is None:
            keys = [key for key in self._shares if key.topic_id == topic.id]
            self._drop(keys)
            self._tasks.start(self._remove(keys))

    async def _remove(self, keys: Collection[ShareKey]) -> None:
        """Delete the windows of deleted topics. If that fails the next start does it."""
        if not keys:
            return
        try:
            await self._topic.durable(self._topic.append(map(storage.tombstone, keys)))
        except (HeadraceError, OSError) as error:
            logger.error("states of deleted topics stay in %s for now: %s", self._topic.name, error)

    async def _forget(self, keys: Collection[ShareKey]) -> None:
        """Delete states of groups; raises, and deletes nothing, if that can't be stored."""
        if not keys:
            return
        try:
            pending = self._topic.append(map(storage.tombstone, keys))
        except (HeadraceError, OSError):
            for key in keys:  # the log may have tombstones of some of them
                self._shares[key].stored.ask_for_snapshot()
            raise
        self._drop(keys)
        await self._topic.durable(pending)

    def _drop(self, keys: Iterable[ShareKey]) -> None:
        for key in keys:
            share = self._shares.pop(key, None)
            if share is not None:
                self._timers.cancel(key)
                share.go()
            of_group = self._by_group.get(key.group_id, {})
            of_group.pop(key, None)
            if not of_group:
                self._by_group.pop(key.group_id, None)


def _count(share: SharePartition, acknowledgements: Iterable[Acknowledgement]) -> None:
    counters = share.counters
    for one in acknowledgements:
        records = one.last - one.first + 1
        match one.type:
            case AcknowledgeType.ACCEPT:
                counters.accepted += records
            case AcknowledgeType.RELEASE:
                counters.released += records
            case AcknowledgeType.REJECT:
                counters.rejected += records
            case _:
                pass
