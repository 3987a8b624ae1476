"""All groups of the broker, by kind and name, and the limits on their number and memory.

A name belongs to at most one group. Metadata and assignments of members are bytes that clients send: they are limited.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import chain

from headrace.broker.groups.consumer_state import ConsumerGroup
from headrace.broker.groups.share import ShareGroup
from headrace.broker.groups.state import Group, MemberProtocol
from headrace.broker.settings import BrokerSettings

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


class GroupRegistry:
    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._added_bytes = 0
        """Added since the members were last measured. Removals need no count: members are measured at the limit."""
        self.classic: dict[str, Group] = {}
        self.consumer: dict[str, ConsumerGroup] = {}
        self.share: dict[str, ShareGroup] = {}

    def __iter__(self) -> Iterator[Group | ConsumerGroup | ShareGroup]:
        return chain(self.classic.values(), self.consumer.values(), self.share.values())

    def is_taken(self, group_id: str) -> bool:
        """Whether a consumer group of either protocol has this name."""
        return group_id in self.classic or group_id in self.consumer

    @property
    def has_room(self) -> bool:
        """Whether there may be one more consumer group."""
        count = len(self.classic) + len(self.consumer)
        if count < self._settings.groups_max:
            return True
        logger.warning("group rejected: there are %d already; raise groups_max", count)
        return False

    def admits(self, group_id: str, size_bytes: int) -> bool:
        """Whether a member may add this many bytes."""
        if size_bytes > self._settings.group_member_bytes_max:
            _log_rejected(group_id, size_bytes, "lower what members send, or raise group_member_bytes_max")
            return False
        if self._added_bytes + size_bytes > self._settings.groups_bytes_max:
            self._added_bytes = sum(map(size_of_group, self))
            if self._added_bytes + size_bytes > self._settings.groups_bytes_max:
                _log_rejected(group_id, size_bytes, "use fewer members, or raise groups_bytes_max")
                return False
        self._added_bytes += size_bytes
        return True


def _log_rejected(group_id: str, size_bytes: int, hint: str) -> None:
    logger.warning(
        "member of group %s rejected: it brings too many bytes",
        group_id[:200],
        extra={"bytes": size_bytes, "hint": hint},
    )
