"""The memory of members of all groups, which is limited: metadata and assignments are bytes that clients send."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from headrace.broker.groups.consumer_state import ConsumerGroup
from headrace.broker.groups.share import ShareGroup
from headrace.broker.groups.state import Group, MemberProtocol

logger = logging.getLogger(__name__)

NAME_OVERHEAD_BYTES = 60
"""Memory of a short string besides its characters."""


def size_of_names(names: Iterable[str]) -> int:
    return sum(len(name) + NAME_OVERHEAD_BYTES for name in names)


def size_of_protocols(protocols: Iterable[MemberProtocol]) -> int:
    return sum(len(offer.name) + NAME_OVERHEAD_BYTES + len(offer.metadata) for offer in protocols)


def size_of_group(group: Group | ConsumerGroup | ShareGroup) -> int:
    if isinstance(group, Group):
        return sum(
            size_of_protocols(member.protocols) + len(member.assignment) for member in group.members.values()
        )
    return sum(size_of_names(member.topics) for member in group.members.values())


class MemberMemory:
    """Counts only what is added. If that reaches the limit, all members are measured, so removals need no count."""

    def __init__(
        self,
        *,
        member_bytes_max: int,
        groups_bytes_max: int,
        groups: Iterable[Group | ConsumerGroup | ShareGroup],
    ) -> None:
        self._member_bytes_max = member_bytes_max
        self._groups_bytes_max = groups_bytes_max
        self._groups = groups
        self._came_bytes = 0

    def admits(self, group_id: str, size_bytes: int) -> bool:
        """Whether a member may add this many bytes."""
        if size_bytes > self._member_bytes_max:
            self._log(group_id, size_bytes, "lower what members send, or raise group_member_bytes_max")
            return False
        if self._came_bytes + size_bytes > self._groups_bytes_max:
            self._came_bytes = sum(map(size_of_group, self._groups))
            if self._came_bytes + size_bytes > self._groups_bytes_max:
                self._log(group_id, size_bytes, "use fewer members, or raise groups_bytes_max")
                return False
        self._came_bytes += size_bytes
        return True

    def _log(self, group_id: str, size_bytes: int, hint: str) -> None:
        logger.warning(
            "member of group %s refused: it brings too many bytes",
            group_id[:200],
            extra={"bytes": size_bytes, "hint": hint},
        )
