"""All groups of the broker, by kind and name. A name belongs to at most one group."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from headrace.broker.groups.consumer_state import ConsumerGroup
from headrace.broker.groups.share import ShareGroup
from headrace.broker.groups.state import Group


class GroupRegistry:
    def __init__(self) -> None:
        self.classic: dict[str, Group] = {}
        self.consumer: dict[str, ConsumerGroup] = {}
        self.share: dict[str, ShareGroup] = {}

    def __iter__(self) -> Iterator[Group | ConsumerGroup | ShareGroup]:
        return chain(self.classic.values(), self.consumer.values(), self.share.values())
