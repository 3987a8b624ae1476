"""Fetch sessions (KIP-227): a client names its partitions once, then sends and gets only what changed.

A session is known by its id and epoch alone, as the protocol has it. Sessions are bounded; when one more is wanted, the
one that was idle for longest goes, and its client starts a new one.
"""

from __future__ import annotations

import random
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from headrace.protocol.messages.fetch import FetchPartition, FetchRequest

SESSIONLESS_EPOCH = -1
NEW_SESSION_EPOCH = 0
NO_SESSION_ID = 0


PARTITION_OVERHEAD_BYTES = 550
"""What Python takes for a partition of a session besides the topic's name, measured."""


class PartitionKey(Struct, frozen=True):
    """A topic by name or, from version 13 on, by id; the other is empty."""

    topic: str
    topic_id: uuid.UUID
    partition: int

    @property
    def held_bytes(self) -> int:
        """What a session takes in memory for it."""
        return PARTITION_OVERHEAD_BYTES + len(self.topic)


class Followed(Struct):
    """A partition in a session: where the client is, and what it was last told."""

    wanted: FetchPartition
    high_watermark: int = -1
    start_offset: int = -1
    had_error: bool = False

    def tell(self, high_watermark: int, start_offset: int, *, has_error: bool) -> bool:
        """Remember what the client is told now; whether any of it is news."""
        news = (
            has_error
            or self.had_error
            or high_watermark != self.high_watermark
            or start_offset != self.start_offset
        )
        self.high_watermark, self.start_offset, self.had_error = high_watermark, start_offset, has_error
        return news


class FetchSession(Struct):
    id: int
    held_bytes: int = 0
    next_epoch: int = 1
    by_id: bool = False
    partitions: OrderedDict[PartitionKey, Followed] = field(default_factory=OrderedDict)

    @property
    def is_incremental(self) -> bool:
        """Whether the client knows what it was told before: not in the first answer, not without a session."""
        return self.id != NO_SESSION_ID and self.next_epoch > 1

    def rotate(self, served: Iterable[PartitionKey]) -> None:
        """What gave data goes to the end, so that a full answer never starves the partitions behind it."""
        for key in served:
            self.partitions.move_to_end(key)


def wanted_partitions(request: FetchRequest) -> Iterator[tuple[PartitionKey, FetchPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield PartitionKey(topic.topic, topic.topic_id, partition.partition), partition


class SessionNotFound(Exception):
    """The session is not there (any more)."""


class InvalidSessionEpoch(Exception):
    """The request is not the one that comes next in its session."""


class SessionTopicIdError(Exception):
    """The client changed between names and ids in the midst of a session."""


class FetchSessions:
    def __init__(self, sessions_max: int, bytes_max: int) -> None:
        self._sessions_max = sessions_max
        self._bytes_max = bytes_max
        self._held_bytes = 0
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest, version: int) -> FetchSession:
        """The session that a request continues, opens, or (without sessions) a throw-away one."""
        if request.session_epoch in (SESSIONLESS_EPOCH, NEW_SESSION_EPOCH):
            if request.session_id != NO_SESSION_ID:
                self._forget(request.session_id)
            is_wanted = request.session_epoch == NEW_SESSION_EPOCH and self._sessions_max > 0
            session = self._open() if is_wanted else FetchSession(NO_SESSION_ID)
            session.by_id = version >= 13
            self._apply(session, request)
            return session
        return self._continue(request, version)

    def _open(self) -> FetchSession:
        while len(self._sessions) >= self._sessions_max:
            self._evict()
        session_id = NO_SESSION_ID
        while session_id == NO_SESSION_ID or session_id in self._sessions:
            session_id = random.getrandbits(31)
        session = self._sessions[session_id] = FetchSession(session_id)
        return session

    def _evict(self) -> None:
        """Forget the idlest: its client is told, and begins another."""
        self._forget(next(iter(self._sessions)))
        self.evicted += 1

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._held_bytes -= session.held_bytes

    def _continue(self, request: FetchRequest, version: int) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise SessionNotFound
        if request.session_epoch != session.next_epoch:
            raise InvalidSessionEpoch
        if session.by_id != (version >= 13):
            raise SessionTopicIdError
        self._sessions.move_to_end(session.id)
        session.next_epoch = 1 if session.next_epoch == 2**31 - 1 else session.next_epoch + 1
        self._apply(session, request)
        return session

    def _apply(self, session: FetchSession, request: FetchRequest) -> None:
        before_bytes = session.held_bytes
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                key = PartitionKey(forgotten.topic, forgotten.topic_id, index)
                if session.partitions.pop(key, None) is not None:
                    session.held_bytes -= key.held_bytes
        for key, wanted in wanted_partitions(request):
            followed = session.partitions.get(key)
            if followed is None:
                session.partitions[key] = Followed(wanted)
                session.held_bytes += key.held_bytes
            else:
                followed.wanted = wanted
        if session.id in self._sessions:
            self._held_bytes += session.held_bytes - before_bytes
            while self._held_bytes > self._bytes_max:
                self._evict()
