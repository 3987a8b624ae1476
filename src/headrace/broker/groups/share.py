"""The pure rules of share groups: their members, and the partitions of each member.

Several members may have the same partition, so no member waits for another to revoke it. A member's partitions follow
from its index among the subscribers of each topic. So the cost of joining and leaving does not depend on the number of
members: each gets its new partitions with its next heartbeat.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from msgspec import Struct, field

from headrace.broker.groups.state import GroupState
from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode

JOIN_EPOCH = 0
LEAVE_EPOCH = -1

MEMBERS_PER_PARTITION_MIN = 2
"""How many members a partition has at least, if the group has as many: while one of them is slow, or has failed and is
not yet removed, the other continues. More would only make every fetch read more partitions."""

# By topic id: a topic that was deleted and created again with the same name is another topic.
Assignment = Mapping[uuid.UUID, tuple[int, ...]]


class FoundTopic(Struct, frozen=True):
    """A topic that exists, as groups see it."""

    id: uuid.UUID
    partition_count: int


class ShareHeartbeat(Struct, frozen=True, kw_only=True):
    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    """None if unchanged."""


class ShareHeartbeatResult(Struct, frozen=True, kw_only=True):
    member_epoch: int
    assignment: Assignment | None = None
    """None if unchanged."""


class ShareMember(Struct, kw_only=True):
    member_id: str
    client_id: str
    client_host: str
    rack_id: str | None = None
    topics: tuple[str, ...] = ()
    epoch: int = 0
    previous_epoch: int = 0
    assignment: Assignment = field(default_factory=dict)


class Subscribers:
    """The subscribers of a topic, each with an index; the last one gets the index of one that leaves."""

    def __init__(self) -> None:
        self._members: list[str] = []
        self._indexes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member_id: str) -> None:
        if member_id not in self._indexes:
            self._indexes[member_id] = len(self._members)
            self._members.append(member_id)

    def remove(self, member_id: str) -> None:
        index = self._indexes.pop(member_id, None)
        if index is None:
            return
        last = self._members.pop()
        if last != member_id:
            self._members[index] = last
            self._indexes[last] = index

    def partitions_of(self, member_id: str, partition_count: int) -> tuple[int, ...]:
        """An even share: every partition has as many members as any other, and loads differ by one at most.

        The partitions are dealt to the members in rounds, like cards. If a round ends with the last member, so that
        each would get the same partitions again, the next round starts one member further.
        """
        index, members = self._indexes[member_id], len(self._members)
        rounds = min(max(MEMBERS_PER_PARTITION_MIN, -(-members // partition_count)), members)
        if partition_count % members:
            dealt = [card % partition_count for card in range(index, rounds * partition_count, members)]
        else:
            dealt = [
                card
                for number in range(rounds)
                for card in range((index - number) % members, partition_count, members)
            ]
        return tuple(sorted(dealt))


class ShareGroup:
    def __init__(self, group_id: str, *, epoch: int = 0) -> None:
        self.group_id = group_id
        self.epoch = epoch
        self.members: dict[str, ShareMember] = {}
        self._subscribers: dict[str, Subscribers] = {}
        self._topics: dict[str, FoundTopic] = {}

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self.members else GroupState.EMPTY

    def is_subscribed(self, topic: str) -> bool:
        return topic in self._subscribers

    def heartbeat(
        self, heartbeat: ShareHeartbeat, found: Mapping[str, FoundTopic], *, members_max: int
    ) -> ShareHeartbeatResult:
        """A member joins or reports. `found` are those of its topics that exist, by name. Raises RequestRejected."""
        member = self.members.get(heartbeat.member_id)
        self._check(heartbeat, member, members_max)
        if member is None:
            member = self._add(heartbeat)
        if heartbeat.topics is not None:
            self._subscribe(member, heartbeat.topics)
        self._note_topics(member, found)
        return self._reconcile(member, is_full=heartbeat.member_epoch == JOIN_EPOCH)

    def leave(self, member_id: str) -> bool:
        """Whether it was a member."""
        member = self.members.pop(member_id, None)
        if member is None:
            return False
        self._subscribe(member, ())
        self.epoch += 1
        return True

    def _check(self, heartbeat: ShareHeartbeat, member: ShareMember | None, members_max: int) -> None:
        if heartbeat.member_epoch == JOIN_EPOCH:
            if member is None and len(self.members) >= members_max:
                raise RequestRejected(
                    ErrorCode.GROUP_MAX_SIZE_REACHED,
                    "The group has as many members as the broker's group_members_max allows.",
                )
        elif member is None:
            raise RequestRejected(
                ErrorCode.UNKNOWN_MEMBER_ID, "This member is not in the group; it may join again."
            )
        # The response to an earlier heartbeat may be lost: then the member still sends its previous epoch.
        elif heartbeat.member_epoch not in (member.epoch, member.previous_epoch):
            raise RequestRejected(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The member's epoch is not the one that it received; it must join again.",
            )

    def _add(self, heartbeat: ShareHeartbeat) -> ShareMember:
        member = ShareMember(
            member_id=heartbeat.member_id,
            client_id=heartbeat.client_id,
            client_host=heartbeat.client_host,
            rack_id=heartbeat.rack_id,
        )
        self.members[member.member_id] = member
        self.epoch += 1
        return member

    def _subscribe(self, member: ShareMember, topics: tuple[str, ...]) -> None:
        wanted = tuple(sorted(set(topics)))
        if wanted == member.topics:
            return
        for topic in set(member.topics) - set(wanted):
            subscribers = self._subscribers[topic]
            subscribers.remove(member.member_id)
            if not len(subscribers):
                del self._subscribers[topic]
                self._topics.pop(topic, None)
        for topic in wanted:
            self._subscribers.setdefault(topic, Subscribers()).add(member.member_id)
        member.topics = wanted
        self.epoch += 1

    def _note_topics(self, member: ShareMember, found: Mapping[str, FoundTopic]) -> None:
        """The first heartbeat after a topic was created, extended or deleted updates the group."""
        for name in member.topics:
            topic = found.get(name)
            if self._topics.get(name) == topic:
                continue
            if topic is None:
                del self._topics[name]
            else:
                self._topics[name] = topic
            self.epoch += 1

    def _reconcile(self, member: ShareMember, *, is_full: bool) -> ShareHeartbeatResult:
        is_changed = False
        if member.epoch != self.epoch:
            assignment = self._assignment_of(member)
            is_changed = assignment != member.assignment
            member.assignment = assignment
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        return ShareHeartbeatResult(
            member_epoch=member.epoch, assignment=member.assignment if is_changed or is_full else None
        )

    def _assignment_of(self, member: ShareMember) -> Assignment:
        return {
            topic.id: self._subscribers[name].partitions_of(member.member_id, topic.partition_count)
            for name in member.topics
            if (topic := self._topics.get(name)) is not None
        }
