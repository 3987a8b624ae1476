"""What ShareFetch and ShareAcknowledge have in common: sessions, and acknowledgements in the protocol's form."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from msgspec import Struct

from headrace.broker.client import Client
from headrace.broker.error_codes import error_code
from headrace.broker.refusals import RequestRefused
from headrace.broker.shares.coordinator import ShareCoordinator
from headrace.broker.shares.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    InvalidSessionEpoch,
    PartitionKey,
    SessionKey,
    SessionNotFound,
    ShareSession,
    TooManySessions,
)
from headrace.broker.shares.storage import ShareKey
from headrace.broker.shares.window import Acknowledgement, AcknowledgeType, InvalidRecordState
from headrace.broker.topics import Topics
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.share_fetch import AcknowledgementBatch

RENEW_SINCE = 2


class SessionRequest(Protocol):
    @property
    def group_id(self) -> str | None: ...
    @property
    def member_id(self) -> str | None: ...
    @property
    def share_session_epoch(self) -> int: ...


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of the acknowledgements for a partition."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def open_or_continue(
    request: SessionRequest, shares: ShareCoordinator, client: Client, *, may_open: bool
) -> ShareSession:
    """The session of a request; raises RequestRefused."""
    if not request.group_id or not request.member_id:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "a group and a member are needed")
    key = SessionKey(request.group_id, request.member_id)
    sessions = shares.sessions
    try:
        if request.share_session_epoch == INITIAL_EPOCH:
            if not may_open:
                raise InvalidSessionEpoch
            session = sessions.open(key, client)
        else:
            session = sessions.advance(key, request.share_session_epoch, client)
    except SessionNotFound:
        raise RequestRefused(ErrorCode.SHARE_SESSION_NOT_FOUND) from None
    except InvalidSessionEpoch:
        raise RequestRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH) from None
    except TooManySessions:
        raise RequestRefused(ErrorCode.SHARE_SESSION_LIMIT_REACHED) from None
    client.when_gone.add(shares.client_gone)
    return session


def is_final(request: SessionRequest) -> bool:
    return request.share_session_epoch == FINAL_EPOCH


def acknowledgements(batches: Sequence[AcknowledgementBatch], version: int) -> list[Acknowledgement]:
    """One for each run of offsets with the same type; raises RequestRefused if they are invalid."""
    found: list[Acknowledgement] = []
    next_offset = 0
    for batch in batches:
        types, count = batch.acknowledge_types, batch.last_offset - batch.first_offset + 1
        if batch.first_offset < next_offset or count < 1 or len(types) not in (1, count):
            raise RequestRefused(
                ErrorCode.INVALID_REQUEST, "acknowledgements must be in order, with their types"
            )
        if len(types) == 1:
            found.append(Acknowledgement(batch.first_offset, batch.last_offset, _type(types[0], version)))
        else:
            found += _runs(batch.first_offset, types, version)
        next_offset = batch.last_offset + 1
    return found


def _runs(first_offset: int, types: Sequence[int], version: int) -> Iterable[Acknowledgement]:
    begin = 0
    for index in range(1, len(types) + 1):
        if index == len(types) or types[index] != types[begin]:
            kind = _type(types[begin], version)
            yield Acknowledgement(first_offset + begin, first_offset + index - 1, kind)
            begin = index


def _type(number: int, version: int) -> AcknowledgeType:
    if not 0 <= number <= (AcknowledgeType.RENEW if version >= RENEW_SINCE else AcknowledgeType.REJECT):
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"{number} is no type of acknowledgement")
    return AcknowledgeType(number)


class Acknowledging:
    """Acknowledgements of one request: they take effect at once, and are answered when they are durable."""

    def __init__(
        self, session: ShareSession, *, shares: ShareCoordinator, topics: Topics, version: int
    ) -> None:
        self._session = session
        self._shares = shares
        self._topics = topics
        self._version = version
        self._outcomes: dict[PartitionKey, Outcome] = {}
        self._writing: dict[PartitionKey, asyncio.Future[None]] = {}

    def add(self, topic_id: UUID, partition: int, batches: Sequence[AcknowledgementBatch]) -> None:
        key = PartitionKey(topic_id, partition)
        self._outcomes[key] = Outcome()
        try:
            self._apply(key, batches)
        except RequestRefused as refused:
            self._outcomes[key] = Outcome(code=refused.code, message=refused.message)
        except InvalidRecordState as error:
            self._outcomes[key] = Outcome(code=ErrorCode.INVALID_RECORD_STATE, message=str(error))

    def _apply(self, key: PartitionKey, batches: Sequence[AcknowledgementBatch]) -> None:
        shares, group_id = self._shares, self._session.key.group_id
        share = shares.get(ShareKey(group_id, key.topic_id, key.partition))
        if share is None:
            raise RequestRefused(unknown_partition(key, self._topics))
        wanted = acknowledgements(batches, self._version)
        if not shares.config(share).may_renew and any(one.type == AcknowledgeType.RENEW for one in wanted):
            raise RequestRefused(ErrorCode.INVALID_REQUEST, "locks of this group can't be renewed")
        writing = shares.acknowledge(share, wanted, member_id=self._session.key.member_id)
        if writing is not None:
            self._writing[key] = writing

    async def outcomes(self) -> Mapping[PartitionKey, Outcome]:
        for key, writing in self._writing.items():
            try:
                await writing
            except (HeadraceError, OSError) as error:
                self._outcomes[key] = Outcome(code=error_code(error), message=str(error))
        return self._outcomes


def unknown_partition(key: PartitionKey, topics: Topics) -> ErrorCode:
    """Why a partition is unknown."""
    if topics.get_by_id(key.topic_id) is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
