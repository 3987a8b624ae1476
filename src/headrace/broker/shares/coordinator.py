"""The coordinator of share groups: what each was delivered and has acknowledged; durable, with timeouts.

Everything here happens in the event loop's thread. A request takes effect when its method is called. Methods return
what has to become durable before the response.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from headrace.broker.client import Client
from headrace.broker.configs.group_configs import GroupConfigs, OffsetReset, ShareConfig
from headrace.broker.configs.share_rules import Rules
from headrace.broker.flusher import Flusher
from headrace.broker.groups.registry import GroupRegistry
from headrace.broker.groups.share import ShareGroup
from headrace.broker.partition import Partition
from headrace.broker.rejections import RequestRejected
from headrace.broker.runtime import Runtime
from headrace.broker.shares import storage
from headrace.broker.shares.dead_letters import DeadLetters
from headrace.broker.shares.delivery import Reading
from headrace.broker.shares.sessions import SessionKey, ShareSession, ShareSessions
from headrace.broker.shares.share_partition import SharePartition
from headrace.broker.shares.state_writer import StateWriter
from headrace.broker.shares.states import RecordState
from headrace.broker.shares.storage import ShareKey, StoredWindow
from headrace.broker.shares.window import Acknowledgement, AcknowledgeType, Acquired, DeadRecords, Window
from headrace.broker.state_topic import Coordinator, StateTopic
from headrace.broker.timers import Timers
from headrace.broker.topics import Topic, Topics
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

LEAVE_GRACE_S = 5.0
"""How long after leaving its group a member may still acknowledge; clients need milliseconds."""

_COUNTERS = {
    AcknowledgeType.ACCEPT: "accepted",
    AcknowledgeType.RELEASE: "released",
    AcknowledgeType.REJECT: "rejected",
}


class ShareCoordinator(Coordinator):
    def __init__(
        self,
        runtime: Runtime,
        *,
        topics: Topics,
        state: StateTopic,
        flusher: Flusher,
        configs: GroupConfigs,
        registry: GroupRegistry,
    ) -> None:
        super().__init__(runtime, state)
        self._topics = topics
        self._configs = configs
        self._groups = registry.share
        self.sessions = ShareSessions(runtime.settings.share_sessions_max)
        self._shares: dict[ShareKey, SharePartition] = {}
        self._by_group: dict[str, dict[ShareKey, SharePartition]] = {}
        self._writer = StateWriter(runtime, state, on_dead=self._dead_stored)
        self._dead_letters = DeadLetters(
            runtime, topics=topics, flusher=flusher, configs=configs, on_written=self._letters_written
        )
        self._timers: Timers[ShareKey] = Timers(runtime.loop, runtime.clock, self._due)
        self._loaded: asyncio.Future[None] = runtime.loop.create_future()

    # From start to stop

    async def _load(self) -> None:
        stored = await self._topic.load(storage.StoredWindows, on_failure=self._not_loaded)
        if stored is None:
            return
        windows = stored.by_key
        self._unavailable = None
        missing = []
        for key, window in windows.items():
            topic = self._topics.get_by_id(key.topic_id)
            partition = None if topic is None else topic.partition(key.partition)
            if partition is None:
                missing.append(key)
                continue
            share = self._add(SharePartition(partition, window, is_stored=True))
            rules = self.config(share).rules
            if rules.is_ordered:
                share.paused_until_ms = self.now_ms() + rules.lock_ms
                self._check_at(share, share.paused_until_ms)
            self._dead_letters.write(share, window.window.without_letters(rules), is_perhaps_written=True)
        if missing:
            self._tasks.start(self._remove(missing))
        self._end_loading()
        if windows:
            logger.info(
                "share groups loaded", extra={"groups": len(self._by_group), "partitions": len(windows)}
            )

    def _not_loaded(self) -> None:
        """Without some states the broker would deliver again what was accepted."""
        super()._not_loaded()
        self._end_loading()

    def _end_loading(self) -> None:
        if not self._loaded.done():
            self._loaded.set_result(None)

    def close(self) -> None:
        super().close()
        self._end_loading()
        self._timers.close()
        self._dead_letters.close()
        self._writer.close()
        for share in self._shares.values():
            share.waiters.wake()

    async def ready(self) -> None:
        """Wait until states are loaded; raises RequestRejected if they can't be."""
        if not self._loaded.done():
            await asyncio.shield(self._loaded)
        self.require_available()

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
        """Run overdue timeouts now, instead of waiting for the event loop."""
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

    def start_topic(self, group_id: str, topic: Topic) -> None:
        """Start a group in every partition of a topic that it consumes from now on."""
        has_grown = ShareKey(group_id, topic.id, 0) in self._shares
        for partition in topic.partitions:
            key = ShareKey(group_id, topic.id, partition.index)
            if key not in self._shares:
                # If the group consumed the topic already, it gets the new partition from its first record on.
                start = partition.log.start_offset if has_grown else self._first_offset(group_id, partition)
                self._keep(self._add(SharePartition(partition, StoredWindow(key, Window(start)))))

    def start(self, key: ShareKey) -> SharePartition | None:
        """A group on a partition, started if it is new; None if the partition is unknown."""
        topic = None if key in self._shares else self._topics.get_by_id(key.topic_id)
        if topic is not None and topic.partition(key.partition) is not None:
            self.start_topic(key.group_id, topic)
        return self._shares.get(key)

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
        self,
        share: SharePartition,
        reading: Reading,
        *,
        member_id: str,
        records_max: int,
        is_strict: bool,
        keys_from: int = 0,
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
            keys=reading.keys,
            keys_from=keys_from,
            hungry_members=len(share.hungry_members - {member_id}),
        )
        if acquired:
            share.hungry_members.discard(member_id)
            share.counters["delivered"] += sum(one.records for one in acquired)
            self._check_at(share, now_ms + rules.lock_ms)
        if share.window.is_changed:
            self._keep(share)
        return acquired

    # Acknowledging

    def acknowledge(
        self, share: SharePartition, acknowledgements: Sequence[Acknowledgement], *, member_id: str
    ) -> asyncio.Future[None] | None:
        """Done when the new states are durable; None if there is nothing to write.

        Raises RequestRejected, and changes nothing, if one of them is not locked by the member.
        """
        rules = self.config(share).rules
        was_full = share.window.room(rules) == 0
        now_ms = self.now_ms()
        share.window.acknowledge(acknowledgements, member_id=member_id, now_ms=now_ms, rules=rules)
        types = {one.type for one in acknowledgements}
        _count(share, acknowledgements)
        if AcknowledgeType.RENEW in types:
            self._check_at(share, now_ms + rules.lock_ms)
        if AcknowledgeType.RELEASE in types or was_full:
            self._released(share, now_ms, rules)
        elif rules.is_ordered and len(share.waiters) and share.has_more(now_ms, self.config(share)):
            share.waiters.wake_first()  # the next records of the same keys
        return self._keep(share) if share.window.is_changed else None

    def member_left(self, group_id: str, member_id: str, *, is_orderly: bool) -> None:
        """Release what a member has locked, for other members."""
        self.sessions.close(SessionKey(group_id, member_id))
        if self.is_closed:
            return  # a stop closes all connections, and locks end with the broker
        for share in self.of_group(group_id):
            share.hungry_members.discard(member_id)
            before = share.window.spans.records_in[RecordState.ACQUIRED]
            if not before:
                continue
            rules, now_ms = self.config(share).rules, self.now_ms()
            if rules.is_ordered and not is_orderly:
                # It may still process records: no other member gets their keys before its locks end.
                continue
            share.window.abandon(member_id, now_ms, rules, is_orderly=is_orderly)
            if share.window.spans.records_in[RecordState.ACQUIRED] != before:
                self._released(share, now_ms, rules)
                self._keep(share)

    def member_leaves(self, group_id: str, member_id: str) -> None:
        """A member left its group. Its last acknowledgements may still be in flight on another connection, and close
        its session. If they don't arrive in time, what it has locked is released."""
        session = self.sessions.get(SessionKey(group_id, member_id))
        if session is None:
            self.member_left(group_id, member_id, is_orderly=True)
        else:
            self._runtime.loop.call_later(LEAVE_GRACE_S, self._end_session, session)

    def _end_session(self, session: ShareSession) -> None:
        group = self._groups.get(session.key.group_id)
        is_back = group is not None and session.key.member_id in group.members
        if not session.is_closed and not is_back:
            self.member_left(*session.key, is_orderly=True)

    def client_disconnected(self, client: Client) -> None:
        """A connection broke: release what its members have locked."""
        for session in self.sessions.of_client(client):
            self.member_left(*session.key, is_orderly=False)

    def _released(self, share: SharePartition, now_ms: int, rules: Rules) -> None:
        if rules.backoff_ms:
            self._check_at(share, now_ms + rules.delay_ms(1))
        share.waiters.wake_first()

    def _letters_written(self, share: SharePartition, first: int, last: int) -> None:
        rules = self.config(share).rules
        was_full = share.window.room(rules) == 0
        share.window.letters_written(first, last)
        self._keep(share)
        if was_full:
            share.waiters.wake_first()

    def _keep(self, share: SharePartition) -> asyncio.Future[None]:
        """Store what changed."""
        return self._writer.written(share.stored)

    def _dead_stored(self, stored: StoredWindow, dead: Sequence[DeadRecords]) -> None:
        """The state of dying records is durable: their dead letters are written next."""
        share = self._shares.get(stored.key)
        if share is not None and share.stored is stored:
            self._dead_letters.write(share, dead)

    # Timeouts

    def _check_at(self, share: SharePartition, at_ms: int) -> None:
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
        before = window.spans.records_in[RecordState.ACQUIRED]
        window.expire(now_ms, rules)
        share.counters["expired"] += before - window.spans.records_in[RecordState.ACQUIRED]
        next_ms = window.next_event_ms()
        if next_ms is not None:
            self._check_at(share, next_ms)
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
                old.delete()
                stored.state_epoch = old.stored.state_epoch + 1
                stored.snapshot_epoch = old.stored.snapshot_epoch
                stored.request_snapshot()
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
            raise RequestRejected(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.members:
            raise RequestRejected(ErrorCode.NON_EMPTY_GROUP)
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
                self._shares[key].stored.request_snapshot()
            raise
        self._drop(keys)
        await self._topic.durable(pending)

    def _drop(self, keys: Iterable[ShareKey]) -> None:
        for key in keys:
            share = self._shares.pop(key, None)
            if share is not None:
                self._timers.cancel(key)
                share.delete()
            of_group = self._by_group.get(key.group_id, {})
            of_group.pop(key, None)
            if not of_group:
                self._by_group.pop(key.group_id, None)


def _count(share: SharePartition, acknowledgements: Iterable[Acknowledgement]) -> None:
    for one in acknowledgements:
        if one.type in _COUNTERS:
            share.counters[_COUNTERS[one.type]] += one.records
