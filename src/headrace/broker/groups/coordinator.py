"""The coordinator of classic and consumer groups: requests of members, loading, storing, deleting and expiring groups.

Everything here happens in the event loop's thread. A request takes effect when its method is called; its answer waits
for the disk, or for the other members. So requests take effect in the order in which they came.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Collection
from typing import TypeVar

from msgspec.structs import replace

from headrace.broker.configs.group_configs import GroupConfigs
from headrace.broker.groups import storage
from headrace.broker.groups.classic_members import ClassicMembers
from headrace.broker.groups.consumer import ConsumerHeartbeat
from headrace.broker.groups.consumer_members import ConsumerMembers, Done
from headrace.broker.groups.consumer_state import JOIN_EPOCH, ConsumerGroup, ConsumerGroupState
from headrace.broker.groups.consumer_storage import entries, tombstones
from headrace.broker.groups.events import (
    Heartbeat,
    HeartbeatAnswer,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    StoreGroup,
    Sync,
    SyncAnswer,
)
from headrace.broker.groups.group_offsets import GroupOffsets
from headrace.broker.groups.kept_offsets import KeptOffsets
from headrace.broker.groups.member_memory import MemberMemory, size_of_names, size_of_protocols
from headrace.broker.groups.registry import GroupRegistry
from headrace.broker.groups.state import TRANSITIONS, UNKNOWN_MEMBER, Group, GroupLimits, Trigger
from headrace.broker.refusals import RequestRefused
from headrace.broker.runtime import Runtime
from headrace.broker.settings import BrokerSettings
from headrace.broker.state_topic import StateTopic
from headrace.broker.tasks import Tasks
from headrace.broker.topics import Topics
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT", JoinAnswer, SyncAnswer, HeartbeatAnswer, LeaveAnswer)


class GroupCoordinator:
    def __init__(
        self,
        settings: BrokerSettings,
        *,
        runtime: Runtime,
        topics: Topics,
        state: StateTopic,
        configs: GroupConfigs,
        registry: GroupRegistry,
        memory: MemberMemory,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._loop = runtime.loop
        self._clock = runtime.clock
        self._topics = topics
        self._topic = state
        self._registry = registry
        self._groups = registry.classic
        self._memory = memory
        self._tasks = Tasks(runtime.loop)
        self._offsets = KeptOffsets(state)
        self._members = ClassicMembers(
            registry.classic,
            limits=GroupLimits(
                members_max=settings.group_members_max,
                initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
                new_member_join_timeout_ms=settings.group_new_member_join_timeout_ms,
            ),
            loop=runtime.loop,
            clock=runtime.clock,
            store=self._store,
        )
        self._consumers = ConsumerMembers(
            registry.consumer,
            members_max=settings.group_members_max,
            loop=runtime.loop,
            clock=runtime.clock,
            topics=topics,
            state=state,
            configs=configs,
            become_classic=self._members.inherit,
        )
        self.offsets = GroupOffsets(
            self._offsets,
            runtime=runtime,
            registry=registry,
            members=self._members,
            consumers=self._consumers,
            tasks=self._tasks,
            unavailable=lambda: self._unavailable,
        )
        self._loading: asyncio.Task[None] | None = None
        self._unavailable: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._started = (self._clock.now_ms(), self._clock.monotonic_s())

    # From start to stop

    @property
    def unavailable(self) -> ErrorCode | None:
        """Why requests fail now; None if they are served."""
        return self._unavailable

    def load(self) -> None:
        """Start to load groups and offsets; until that is done, requests fail with COORDINATOR_LOAD_IN_PROGRESS."""
        self._loading = self._tasks.start(self._load())

    async def loaded(self) -> None:
        """Wait until groups and offsets are loaded."""
        if self._loading is not None:
            await asyncio.wait([self._loading])

    async def _load(self) -> None:
        contents = await self._topic.load(storage.Contents, on_failure=self._not_loaded)
        if contents is None:
            return
        self._groups.update(contents.groups)
        self._consumers.loaded(contents.consumer_groups)
        self._offsets.load(contents.offsets, contents.pending)
        for group in self._groups.values():
            # Members from before the restart are alive until their sessions time out.
            for member in group.members.values():
                self._members.touch(group, member.member_id)
        self._unavailable = None
        groups = len(self._groups) + len(self._consumers)
        logger.info("groups loaded", extra={"groups": groups, "offsets": len(self._offsets)})

    def _not_loaded(self) -> None:
        """Without all offsets, consumers would start again at the start or at the end of their partitions."""
        self._unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE

    def close(self) -> None:
        """Stop the timers, and answer the requests that wait."""
        self._unavailable = ErrorCode.NOT_COORDINATOR
        if self._loading is not None:
            self._loading.cancel()
        self._members.close()
        self._consumers.close()

    async def idle(self) -> None:
        """Wait until nothing is loaded, written or expired any more."""
        await self._tasks.idle()

    def run_due_timers(self) -> None:
        """Run the timers that are due, as the event loop does."""
        self._members.timers.run_due()
        self._consumers.timers.run_due()

    # Requests of members

    def join(self, group_id: str, join: Join) -> Awaitable[JoinAnswer]:
        error = self._check_join(group_id, join)
        if error is not ErrorCode.NONE:
            return self._answered(JoinAnswer(error=error, member_id=join.member_id))
        prefix = join.instance_id or join.client_id
        join = replace(join, new_member_id=f"{prefix}-{uuid.uuid4()}")
        consumers = self._consumers.get(group_id)
        if consumers is not None and consumers.members:
            return self._consumers.classic_join(consumers, join)
        if consumers is not None:
            self._make_way(consumers)
        group = self._groups.get(group_id) or Group(group_id=group_id, state_since_ms=self._clock.now_ms())
        return self._members.join(group, join)

    def _make_way(self, group: ConsumerGroup) -> None:
        """Delete a consumer group without members, so that a classic group can have its name."""
        self._consumers.forget(group)
        try:
            self._topic.flush_soon(self._topic.append(entries(tombstones(group))))
        except (HeadraceError, OSError) as failure:
            logger.error("group %r is not deleted on disk: %s", group.group_id, failure)

    def _check_join(self, group_id: str, join: Join) -> ErrorCode:
        if self._unavailable is not None:
            return self._unavailable
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        if group_id in self._registry.share:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        settings = self._settings
        shortest, longest = settings.group_session_timeout_ms_min, settings.group_session_timeout_ms_max
        if not shortest <= join.session_timeout_ms <= longest:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not self._registry.is_taken(group_id):
            if join.member_id != UNKNOWN_MEMBER:
                return ErrorCode.UNKNOWN_MEMBER_ID
            error = self._registry.check_room()
            if error is not ErrorCode.NONE:
                return error
        if not self._memory.admits(group_id, size_of_protocols(join.protocols)):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ErrorCode.NONE

    def consumer_heartbeat(self, group_id: str, heartbeat: ConsumerHeartbeat) -> Done:
        """A member of a consumer group joins, reports or leaves. Raises RequestRefused."""
        if self._unavailable is not None:
            raise RequestRefused(self._unavailable, "Groups can't be served now.")
        if group_id in self._registry.share:
            raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is a share group.")
        classic = self._groups.get(group_id)
        is_new = heartbeat.member_epoch == JOIN_EPOCH and not self._registry.is_taken(group_id)
        if is_new and self._registry.check_room() is not ErrorCode.NONE:
            raise RequestRefused(ErrorCode.GROUP_MAX_SIZE_REACHED, "There are too many groups.")
        if heartbeat.topics and not self._memory.admits(group_id, size_of_names(heartbeat.topics)):
            raise RequestRefused(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "The member subscribes to too many topics."
            )
        done = self._consumers.heartbeat(group_id, heartbeat, classic)
        if classic is not None and self._consumers.get(group_id) is not None:
            self._members.dissolve(classic)
        return done

    def sync(self, group_id: str, sync: Sync) -> Awaitable[SyncAnswer]:
        group, error = self._find(group_id)
        consumers = self._consumers.get(group_id)
        if consumers is not None and self._unavailable is None:
            return self._answered(self._consumers.classic_sync(consumers, sync))
        if group is None:
            return self._answered(SyncAnswer(error=error))
        if not all(
            self._memory.admits(group_id, len(assignment)) for assignment in sync.assignments.values()
        ):
            return self._answered(SyncAnswer(error=ErrorCode.GROUP_MAX_SIZE_REACHED))
        return self._members.sync(group, sync)

    def heartbeat(self, group_id: str, heartbeat: Heartbeat) -> HeartbeatAnswer:
        if self._unavailable is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatAnswer()  # the members are not loaded yet; their sessions start after that
        group, error = self._find(group_id)
        consumers = self._consumers.get(group_id)
        if consumers is not None and self._unavailable is None:
            return self._consumers.classic_heartbeat(consumers, heartbeat)
        if group is None:
            return HeartbeatAnswer(error=error)
        return self._members.heartbeat(group, heartbeat)

    def leave(self, group_id: str, leave: Leave) -> LeaveAnswer:
        group, error = self._find(group_id)
        consumers = self._consumers.get(group_id)
        if consumers is not None and self._unavailable is None:
            return self._consumers.classic_leave(consumers, leave)
        if group is not None:
            return self._members.leave(group, leave)
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            return LeaveAnswer(members=tuple((member, error) for member in leave.members))
        return LeaveAnswer(error=error)

    def _find(self, group_id: str) -> tuple[Group | None, ErrorCode]:
        if self._unavailable is not None:
            return None, self._unavailable
        if not group_id:
            return None, ErrorCode.INVALID_GROUP_ID
        return self._groups.get(group_id), ErrorCode.UNKNOWN_MEMBER_ID

    def _answered(self, answer: AnswerT) -> asyncio.Future[AnswerT]:
        future: asyncio.Future[AnswerT] = self._loop.create_future()
        future.set_result(answer)
        return future

    def _store(self, action: StoreGroup) -> None:
        self._tasks.start(self._write(action))

    async def _write(self, action: StoreGroup) -> None:
        error = ErrorCode.NONE
        if self._consumers.get(action.group.group_id) is not None:
            return  # it became a consumer group in the meantime, and nobody waits for this
        try:
            pending = self._topic.append([storage.group_record(action.group)])
            if action.waits_for_disk:
                await self._topic.durable(pending)
            else:
                self._topic.flush_soon(pending)
        except (HeadraceError, OSError) as failure:
            error = storage.append_error(failure)
            logger.error("group %r not stored: %s", action.group.group_id, failure)
        group = self._groups.get(action.group.group_id)
        if action.then is not None and group is not None and self._unavailable is None:
            self._members.stored(group, replace(action.then, error=error))

    # Groups as a whole

    def groups(self) -> Collection[Group]:
        """Groups of the classic protocol."""
        self._require_available()
        return self._groups.values()

    def consumer_groups(self) -> Collection[ConsumerGroup]:
        """Groups of the consumer protocol."""
        self._require_available()
        return self._consumers.groups.values()

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        self._require_available()
        return self._consumers.get(group_id)

    def group(self, group_id: str) -> Group | None:
        self._require_available()
        return self._groups.get(group_id)

    def is_taken(self, group_id: str) -> bool:
        """Whether a group has this name, so that no share group can have it."""
        return self._registry.is_taken(group_id)

    def delete(self, group_id: str) -> Awaitable[None]:
        """Delete an empty group and its offsets."""
        self._require_available()
        if not self._registry.is_taken(group_id):
            raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND)
        if not self._is_empty(group_id):
            raise RequestRefused(ErrorCode.NON_EMPTY_GROUP)
        return self._tasks.start(self._delete(group_id))

    def _is_empty(self, group_id: str) -> bool:
        consumers = self._consumers.get(group_id)
        if consumers is not None:
            return consumers.state is ConsumerGroupState.EMPTY
        group = self._groups.get(group_id)
        return group is not None and (group.state, Trigger.DELETED) in TRANSITIONS

    async def _delete(self, group_id: str) -> None:
        consumers = self._consumers.get(group_id)
        of_consumers = () if consumers is None else entries(tombstones(consumers))
        removed = self._offsets.remove_group(group_id, [storage.group_tombstone(group_id), *of_consumers])
        if consumers is not None:
            self._consumers.forget(consumers)  # a member that joins from now on joins a new group
        await removed
        # If a member joined or committed in the meantime, the group continues without its old offsets.
        if self._offsets.of(group_id) or (self._registry.is_taken(group_id) and not self._is_empty(group_id)):
            return
        self._groups.pop(group_id, None)
        logger.info("group %r deleted", group_id)

    def expire(self, now_ms: int) -> None:
        """Delete offsets after their retention, and groups that have neither members nor offsets."""
        if self._unavailable is None:
            self._tasks.start(self._expire(self._aged_ms(now_ms)))

    async def _expire(self, now_ms: int) -> None:
        old = self.offsets.expired(now_ms, self._settings.offsets_retention_ms)
        try:
            if old:
                await self._offsets.remove(old)
                logger.info("offsets expired", extra={"offsets": len(old)})
            for group_id in [*self._groups, *self._consumers.groups]:
                if self._is_abandoned(group_id):
                    await self._delete(group_id)
        except RequestRefused:
            return  # logged by `KeptOffsets`; the next run retries

    def _is_abandoned(self, group_id: str) -> bool:
        group = self._groups.get(group_id)
        is_awaited = group is not None and group.pending_member_ids
        has_work = is_awaited or self._offsets.unstable(group_id) or self._offsets.of(group_id)
        return self._is_empty(group_id) and not has_work

    def _aged_ms(self, now_ms: int) -> int:
        # If the system clock was set forward since the start, the monotonic clock has the time that has passed.
        started_ms, started_s = self._started
        return min(now_ms, started_ms + int((self._clock.monotonic_s() - started_s) * 1000))

    def _require_available(self) -> None:
        if self._unavailable is not None:
            raise RequestRefused(self._unavailable)
