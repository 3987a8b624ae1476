"""All groups of the broker, by kind and name. A name belongs to at most one group."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain

from headrace.broker.groups.consumer_state import ConsumerGroup
from headrace.broker.groups.share import ShareGroup
from headrace.broker.groups.state import Group
from headrace.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)


class GroupRegistry:
    def __init__(self, groups_max: int) -> None:
        self._groups_max = groups_max
        self.classic: dict[str, Group] = {}
        self.consumer: dict[str, ConsumerGroup] = {}
        self.share: dict[str, ShareGroup] = {}

    def __iter__(self) -> Iterator[Group | ConsumerGroup | ShareGroup]:
        return chain(self.classic.values(), self.consumer.values(), self.share.values())

    def is_taken(self, group_id: str) -> bool:
        """Whether a consumer group of either protocol has this name."""
        return group_id in self.classic or group_id in self.consumer

    def check_room(self) -> ErrorCode:
        """Whether there may be one more consumer group."""
        count = len(self.classic) + len(self.consumer)
        if count < self._groups_max:
            return ErrorCode.NONE
        logger.warning("group refused: there are %d already; raise groups_max", count)
        return ErrorCode.POLICY_VIOLATION
