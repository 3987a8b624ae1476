"""Performs the rules of share groups: handles heartbeats, and removes members whose sessions time out.

Members are in memory only. After a restart of the broker a member gets UNKNOWN_MEMBER_ID and joins again;
`broker.shares` stores which records its group has locked and acknowledged.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Protocol

from msgspec import Struct

from headrace.broker.configs.group_configs import GroupConfigs
from headrace.broker.groups.registry import GroupRegistry, size_of_names
from headrace.broker.groups.share import (
    LEAVE_EPOCH,
    FoundTopic,
    ShareGroup,
    ShareHeartbeat,
    ShareHeartbeatResult,
)
from headrace.broker.rejections import RequestRejected
from headrace.broker.runtime import Runtime
from headrace.broker.timers import Timers
from headrace.broker.topics import Topics
from headrace.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)


class MemberKey(Struct, frozen=True):
    group_id: str
    member_id: str


class Shares(Protocol):
    """What members of share groups have locked."""

    def member_leaves(self, group_id: str, member_id: str) -> None:
        """A member leaves its group; it may still acknowledge for a moment."""

    def member_left(self, group_id: str, member_id: str, *, is_orderly: bool) -> None:
        """Release what a member has locked."""


class ShareMembers:
    def __init__(
        self,
        runtime: Runtime,
        *,
        topics: Topics,
        configs: GroupConfigs,
        registry: GroupRegistry,
        shares: Shares,
    ) -> None:
        self._settings = runtime.settings
        self._topics = topics
        self._configs = configs
        self._registry = registry
        self._groups = registry.share
        self._shares = shares
        self._timers: Timers[MemberKey] = Timers(runtime.loop, runtime.clock, self._session_expired)

    def close(self) -> None:
        self._timers.close()

    def run_due_timers(self) -> None:
        """Run the timers that are due, as the event loop does."""
        self._timers.run_due()

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group_id: str) -> ShareGroup | None:
        return self._groups.get(group_id)

    def groups(self) -> Collection[ShareGroup]:
        return self._groups.values()

    @property
    def has_room(self) -> bool:
        """Whether there may be one more group."""
        if len(self._groups) < self._settings.groups_max:
            return True
        logger.warning("share group rejected: there are %d already; raise groups_max", len(self))
        return False

    def heartbeat(self, group_id: str, heartbeat: ShareHeartbeat) -> ShareHeartbeatResult:
        """A member joins, reports or leaves. Raises RequestRejected."""
        group = self._groups.get(group_id)
        if heartbeat.member_epoch == LEAVE_EPOCH:
            return self._leave(group_id, heartbeat.member_id)
        if heartbeat.topics and not self._registry.admits(group_id, size_of_names(heartbeat.topics)):
            raise RequestRejected(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "The member subscribes to too many topics."
            )
        if group is None:
            if not self.has_room:
                raise RequestRejected(ErrorCode.GROUP_MAX_SIZE_REACHED, "There are too many groups.")
            group = ShareGroup(group_id)
        found = self._found(group, heartbeat)
        result = group.heartbeat(heartbeat, found, members_max=self._settings.group_members_max)
        self._groups[group_id] = group
        timeout_ms = self._configs.share(group_id).session_timeout_ms
        self._timers.arm(MemberKey(group_id, heartbeat.member_id), timeout_ms)
        return result

    def _found(self, group: ShareGroup, heartbeat: ShareHeartbeat) -> Mapping[str, FoundTopic]:
        member = group.members.get(heartbeat.member_id)
        wanted = heartbeat.topics if heartbeat.topics is not None else member.topics if member else ()
        return {
            name: FoundTopic(topic.id, len(topic.partitions))
            for name in wanted
            if (topic := self._topics.get(name)) is not None
        }

    def _leave(self, group_id: str, member_id: str) -> ShareHeartbeatResult:
        if not self._remove(MemberKey(group_id, member_id)):
            raise RequestRejected(ErrorCode.UNKNOWN_MEMBER_ID, "This member is not in the group.")
        self._shares.member_leaves(group_id, member_id)
        return ShareHeartbeatResult(member_epoch=LEAVE_EPOCH)

    def _session_expired(self, key: MemberKey) -> None:
        if self._remove(key):
            self._shares.member_left(key.group_id, key.member_id, is_orderly=False)
            logger.info(
                "member of share group %r removed: no heartbeat",
                key.group_id,
                extra={"member": key.member_id},
            )

    def _remove(self, key: MemberKey) -> bool:
        group = self._groups.get(key.group_id)
        if group is None or not group.leave(key.member_id):
            return False
        self._timers.cancel(key)
        return True
