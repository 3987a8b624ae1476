"""Fetch sessions (KIP-227): a client names its partitions once, then sends and gets only what changed.

A session is known by its id and epoch alone, as the protocol has it. Sessions are bounded; when one more is opened, the
one that was idle for longest is evicted, and its client starts a new one.
"""

from __future__ import annotations

import random
import uuid
from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct, field

from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest

SESSIONLESS_EPOCH = -1
NEW_SESSION_EPOCH = 0
NO_SESSION_ID = 0


PARTITION_OVERHEAD_BYTES = 550
"""Memory for a partition of a session besides the topic's name, as measured."""


class PartitionKey(Struct, frozen=True):
    """A topic by name or, from version 13 on, by id; the other is empty."""

    topic: str
    topic_id: uuid.UUID
    partition: int

    @property
    def held_bytes(self) -> int:
        """Memory of a session for it."""
        return PARTITION_OVERHEAD_BYTES + len(self.topic)


class Followed(Struct):
    """A partition in a session: the position of the client, and what the last response contained."""

    wanted: FetchPartition
    high_watermark: int = -1
    start_offset: int = -1
    had_error: bool = False

    def update(self, high_watermark: int, start_offset: int, *, has_error: bool) -> bool:
        """Keep what this response contains; whether any of it is new to the client."""
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
        """Whether responses contain only changes: not the first one, and not without a session."""
        return self.id != NO_SESSION_ID and self.next_epoch > 1

    def rotate(self, served: Iterable[PartitionKey]) -> None:
        """Move partitions that had data to the end, so that full responses do not starve the others."""
        for key in served:
            self.partitions.move_to_end(key)


class FetchSessions:
    def __init__(self, sessions_max: int, bytes_max: int) -> None:
        self._sessions_max = sessions_max
        self._bytes_max = bytes_max
        self._held_bytes = 0
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest, version: int) -> FetchSession:
        """The session that a request continues or opens; a temporary one if it uses no sessions.

        Raises RequestRejected if there is none, the epoch is another, or the client switched between topic names and
        ids.
        """
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
            self._forget(next(iter(self._sessions)))  # the idlest: its client opens another
        session_id = NO_SESSION_ID
        while session_id == NO_SESSION_ID or session_id in self._sessions:
            session_id = random.getrandbits(31)
        session = self._sessions[session_id] = FetchSession(session_id)
        return session

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._held_bytes -= session.held_bytes

    def _continue(self, request: FetchRequest, version: int) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise RequestRejected(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != session.next_epoch:
            raise RequestRejected(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != (version >= 13):
            raise RequestRejected(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
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
        for topic in request.topics:
            for wanted in topic.partitions:
                key = PartitionKey(topic.topic, topic.topic_id, wanted.partition)
                followed = session.partitions.get(key)
                if followed is None:
                    session.partitions[key] = Followed(wanted)
                    session.held_bytes += key.held_bytes
                else:
                    followed.wanted = wanted
        if session.id in self._sessions:
            self._held_bytes += session.held_bytes - before_bytes
            while self._held_bytes > self._bytes_max:
                self._forget(next(iter(self._sessions)))  # the idlest: its client opens another
