"""Share sessions: a member names its partitions once, and the epoch lets no request take effect twice."""

from __future__ import annotations

import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct, field

from headrace.broker.client import Client
from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class PartitionKey(NamedTuple):
    topic_id: uuid.UUID
    partition: int


class ShareSession(Struct, eq=False):
    key: SessionKey
    client: Client
    epoch: int = 1
    """That of the next request."""
    is_closed: bool = False
    partitions: OrderedDict[PartitionKey, None] = field(default_factory=OrderedDict)

    def follow(self, wanted: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]) -> None:
        for key in forgotten:
            self.partitions.pop(key, None)
        for key in wanted:
            self.partitions.setdefault(key)

    def rotate(self, served: Iterable[PartitionKey]) -> None:
        """Move partitions that gave records to the end, so that none of a member's partitions starves."""
        for key in served:
            if key in self.partitions:
                self.partitions.move_to_end(key)


class ShareSessions:
    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_client: defaultdict[int, set[ShareSession]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def open(self, key: SessionKey, client: Client) -> ShareSession:
        """A new session, which replaces an older one of the member; what the member has locked stays locked."""
        self.close(key)
        if len(self._sessions) >= self._sessions_max:
            raise RequestRejected(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key, client)
        self._by_client[id(client)].add(session)
        return session

    def advance(self, key: SessionKey, epoch: int, client: Client) -> ShareSession:
        """The session that a request continues; a final request may have any epoch."""
        session = self._sessions.get(key)
        if session is None:
            raise RequestRejected(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise RequestRejected(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        if session.client is not client:
            self._leave_client(session)
            session.client = client
            self._by_client[id(client)].add(session)
        return session

    def close(self, key: SessionKey) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            session.is_closed = True
            self._leave_client(session)

    def of_client(self, client: Client) -> list[ShareSession]:
        return [*self._by_client.get(id(client), ())]

    def _leave_client(self, session: ShareSession) -> None:
        of_client = self._by_client[id(session.client)]
        of_client.discard(session)
        if not of_client:
            del self._by_client[id(session.client)]
