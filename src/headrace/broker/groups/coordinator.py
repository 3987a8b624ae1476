"""The coordinator of classic and consumer groups: requests of members, loading, storing, deleting and expiring groups.

Everything here happens in the event loop's thread. A request takes effect when its method is called; its response waits
for the disk, or for the other members. So requests take effect in the order in which they arrive.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Collection
from typing import Any

from msgspec.structs import replace

from headrace.broker.configs.group_configs import GroupConfigs
from headrace.broker.groups import storage
from headrace.broker.groups.classic_members import ClassicMembers
from headrace.broker.groups.consumer import ConsumerHeartbeat, ConsumerResult
from headrace.broker.groups.consumer_members import ConsumerMembers, Done
from headrace.broker.groups.consumer_state import JOIN_EPOCH, ConsumerGroup, ConsumerGroupState
from headrace.broker.groups.consumer_storage import entries, tombstones
from headrace.broker.groups.events import Join, Response, StoreGroup, rejection
from headrace.broker.groups.group_offsets import GroupOffsets
from headrace.broker.groups.registry import GroupRegistry, size_of_names, size_of_protocols
from headrace.broker.groups.state import TRANSITIONS, UNKNOWN_MEMBER, Group, Trigger
from headrace.broker.rejections import RequestRejected
from headrace.broker.runtime import Runtime
from headrace.broker.state_topic import Coordinator, StateTopic
from headrace.broker.topics import Topics
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.join_group import JoinGroupResponse
from headrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)


class GroupCoordinator(Coordinator):
    def __init__(
        self,
        runtime: Runtime,
        *,
        topics: Topics,
        state: StateTopic,
        configs: GroupConfigs,
        registry: GroupRegistry,
    ) -> None:
        super().__init__(runtime, state)
        self._settings = runtime.settings
        self._registry = registry
        self._groups = registry.classic
        self._members = ClassicMembers(runtime, registry.classic, store=self._store)
        self._consumers = ConsumerMembers(
            runtime,
            registry.consumer,
            topics=topics,
            state=state,
            configs=configs,
            become_classic=self._members.inherit,
        )
        self.offsets = GroupOffsets(
            state,
            runtime=runtime,
            registry=registry,
            members=self._members,
            consumers=self._consumers,
            tasks=self._tasks,
            require_available=self.require_available,
        )
        self._started = (self._clock.now_ms(), self._clock.monotonic_s())

    # From start to stop

    async def loaded(self) -> None:
        """Wait until groups and offsets are loaded."""
        if self._loading is not None:
            await asyncio.wait([self._loading])

    async def _load(self) -> None:
        # Without all offsets, consumers would start again at the start or at the end of their partitions.
        contents = await self._topic.load(storage.Contents, on_failure=self._not_loaded)
        if contents is None:
            return
        self._groups.update(contents.groups)
        self._consumers.loaded(contents.consumer_groups)
        self.offsets.load(contents.offsets, contents.pending)
        for group in self._groups.values():
            # Members from before the restart are alive until their sessions time out.
            for member in group.members.values():
                self._members.touch(group, member.member_id)
        self._unavailable = None
        groups = len(self._groups) + len(self._registry.consumer)
        logger.info("groups loaded", extra={"groups": groups, "offsets": len(self.offsets)})

    def close(self) -> None:
        """Stop the timers, and respond to the requests that wait."""
        super().close()
        self._members.close()
        self._consumers.close()

    def run_due_timers(self) -> None:
        """Run the timers that are due, as the event loop does."""
        self._members.timers.run_due()
        self._consumers.timers.run_due()

    # Requests of members

    def join(self, group_id: str, join: Join) -> Awaitable[JoinGroupResponse]:
        try:
            self._check_join(group_id, join)
            prefix = join.instance_id or join.client_id
            join = replace(join, new_member_id=f"{prefix}-{uuid.uuid4()}")
            consumers = self._registry.consumer.get(group_id)
            if consumers is not None and consumers.members:
                return self._consumers.request(consumers, join)
        except RequestRejected as rejected:
            return self._responded(rejection(join, rejected.code))
        if consumers is not None:
            self._delete_empty(consumers)
        group = self._groups.get(group_id) or Group(group_id=group_id, state_since_ms=self._clock.now_ms())
        return self._members.request(group, join)

    def _delete_empty(self, group: ConsumerGroup) -> None:
        """Delete a consumer group without members, so that a classic group can have its name."""
        self._consumers.remove(group)
        try:
            self._topic.flush_soon(self._topic.append(entries(tombstones(group))))
        except (HeadraceError, OSError) as failure:
            logger.error("group %r is not deleted on disk: %s", group.group_id, failure)

    def _check_join(self, group_id: str, join: Join) -> None:
        self.require_available()
        if not group_id:
            raise RequestRejected(ErrorCode.INVALID_GROUP_ID)
        if group_id in self._registry.share:
            raise RequestRejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        settings = self._settings
        shortest, longest = settings.group_session_timeout_ms_min, settings.group_session_timeout_ms_max
        if not shortest <= join.session_timeout_ms <= longest:
            raise RequestRejected(ErrorCode.INVALID_SESSION_TIMEOUT)
        if not self._registry.is_taken(group_id):
            if join.member_id != UNKNOWN_MEMBER:
                raise RequestRejected(ErrorCode.UNKNOWN_MEMBER_ID)
            if not self._registry.has_room:
                raise RequestRejected(ErrorCode.POLICY_VIOLATION)
        if not self._registry.admits(group_id, size_of_protocols(join.protocols)):
            raise RequestRejected(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def consumer_heartbeat(self, group_id: str, heartbeat: ConsumerHeartbeat) -> Done[ConsumerResult]:
        """A member of a consumer group joins, reports or leaves. Raises RequestRejected."""
        if self._unavailable is not None:
            raise RequestRejected(self._unavailable, "Groups can't be served now.")
        if group_id in self._registry.share:
            raise RequestRejected(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is a share group.")
        classic = self._groups.get(group_id)
        is_new = heartbeat.member_epoch == JOIN_EPOCH and not self._registry.is_taken(group_id)
        if is_new and not self._registry.has_room:
            raise RequestRejected(ErrorCode.GROUP_MAX_SIZE_REACHED, "There are too many groups.")
        if heartbeat.topics and not self._registry.admits(group_id, size_of_names(heartbeat.topics)):
            raise RequestRejected(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "The member subscribes to too many topics."
            )
        done = self._consumers.heartbeat(group_id, heartbeat, classic)
        if classic is not None and self._registry.consumer.get(group_id) is not None:
            self._members.dissolve(classic)
        return done

    def sync(self, sync: SyncGroupRequest) -> Awaitable[SyncGroupResponse]:
        return self._request(sync)

    def heartbeat(self, heartbeat: HeartbeatRequest) -> HeartbeatResponse:
        if self._unavailable is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()  # the members are not loaded yet; their sessions start after that
        response: HeartbeatResponse = self._request(heartbeat).result()
        return response

    def leave(self, leave: LeaveGroupRequest) -> LeaveGroupResponse:
        response: LeaveGroupResponse = self._request(leave).result()
        return response

    def _request(
        self, request: SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
    ) -> asyncio.Future[Any]:
        group_id = request.group_id
        try:
            self.require_available()
            if not group_id:
                raise RequestRejected(ErrorCode.INVALID_GROUP_ID)
            consumers = self._registry.consumer.get(group_id)
            if consumers is not None:
                return self._consumers.request(consumers, request)
            group = self._groups.get(group_id)
            if group is None:
                raise RequestRejected(ErrorCode.UNKNOWN_MEMBER_ID)
            if isinstance(request, SyncGroupRequest) and not all(
                self._registry.admits(group_id, len(part.assignment)) for part in request.assignments
            ):
                raise RequestRejected(ErrorCode.GROUP_MAX_SIZE_REACHED)
            return self._members.request(group, request)
        except RequestRejected as rejected:
            return self._responded(rejection(request, rejected.code))

    def _responded(self, response: Response) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._runtime.loop.create_future()
        future.set_result(response)
        return future

    def _store(self, action: StoreGroup) -> None:
        self._tasks.start(self._write(action))

    async def _write(self, action: StoreGroup) -> None:
        error = ErrorCode.NONE
        if self._registry.consumer.get(action.group.group_id) is not None:
            return  # it became a consumer group in the meantime, and no request waits for this
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
            self._members.apply(group, replace(action.then, error=error))

    # Groups as a whole

    def groups(self) -> Collection[Group]:
        """Groups of the classic protocol."""
        self.require_available()
        return self._groups.values()

    def consumer_groups(self) -> Collection[ConsumerGroup]:
        """Groups of the consumer protocol."""
        self.require_available()
        return self._registry.consumer.values()

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        self.require_available()
        return self._registry.consumer.get(group_id)

    def group(self, group_id: str) -> Group | None:
        self.require_available()
        return self._groups.get(group_id)

    def is_taken(self, group_id: str) -> bool:
        """Whether a group has this name, so that no share group can have it."""
        return self._registry.is_taken(group_id)

    def delete(self, group_id: str) -> Awaitable[None]:
        """Delete an empty group and its offsets."""
        self.require_available()
        if not self._registry.is_taken(group_id):
            raise RequestRejected(ErrorCode.GROUP_ID_NOT_FOUND)
        if not self._is_empty(group_id):
            raise RequestRejected(ErrorCode.NON_EMPTY_GROUP)
        return self._tasks.start(self._delete(group_id))

    def _is_empty(self, group_id: str) -> bool:
        consumers = self._registry.consumer.get(group_id)
        if consumers is not None:
            return consumers.state is ConsumerGroupState.EMPTY
        group = self._groups.get(group_id)
        return group is not None and (group.state, Trigger.DELETED) in TRANSITIONS

    async def _delete(self, group_id: str) -> None:
        consumers = self._registry.consumer.get(group_id)
        of_consumers = () if consumers is None else entries(tombstones(consumers))
        removed = self.offsets.remove_group(group_id, [storage.group_tombstone(group_id), *of_consumers])
        if consumers is not None:
            self._consumers.remove(consumers)  # a member that joins from now on joins a new group
        await removed
        # If a member joined or committed in the meantime, the group continues without its old offsets.
        if self.offsets.of(group_id) or (self._registry.is_taken(group_id) and not self._is_empty(group_id)):
            return
        self._groups.pop(group_id, None)
        logger.info("group %r deleted", group_id)

    def expire(self, now_ms: int) -> None:
        """Delete offsets after their retention, and groups that have neither members nor offsets."""
        if self._unavailable is None:
            self._tasks.start(self._expire(self._aged_ms(now_ms)))

    async def _expire(self, now_ms: int) -> None:
        try:
            await self.offsets.expire(now_ms, self._settings.offsets_retention_ms)
            for group_id in [*self._groups, *self._registry.consumer]:
                if self._is_abandoned(group_id):
                    await self._delete(group_id)
        except RequestRejected:
            return  # logged already; the next run retries

    def _is_abandoned(self, group_id: str) -> bool:
        group = self._groups.get(group_id)
        is_awaited = group is not None and group.pending_member_ids
        has_work = is_awaited or self.offsets.unstable(group_id) or self.offsets.of(group_id)
        return self._is_empty(group_id) and not has_work

    def _aged_ms(self, now_ms: int) -> int:
        # If the system clock was set forward since the start, the monotonic clock has the time that has passed.
        started_ms, started_s = self._started
        return min(now_ms, started_ms + int((self._clock.monotonic_s() - started_s) * 1000))
