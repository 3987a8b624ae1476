"""What ShareFetch and ShareAcknowledge have in common: sessions, and acknowledgements in the protocol's form."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from uuid import UUID

from headrace.broker.client import Client
from headrace.broker.error_codes import Outcome, failure
from headrace.broker.rejections import RequestRejected
from headrace.broker.shares.coordinator import ShareCoordinator
from headrace.broker.shares.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PartitionKey,
    SessionKey,
    ShareSession,
)
from headrace.broker.shares.storage import ShareKey
from headrace.broker.shares.window import Acknowledgement, AcknowledgeType
from headrace.broker.topics import Topics
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from headrace.protocol.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest

RENEW_SINCE = 2

_TYPES = tuple(AcknowledgeType)


SessionRequest = ShareFetchRequest | ShareAcknowledgeRequest


def open_or_continue(
    request: SessionRequest, shares: ShareCoordinator, client: Client, *, may_open: bool
) -> ShareSession:
    """The session of a request; raises RequestRejected."""
    if not request.group_id or not request.member_id:
        raise RequestRejected(ErrorCode.INVALID_REQUEST, "a group and a member are needed")
    key = SessionKey(request.group_id, request.member_id)
    if request.share_session_epoch != INITIAL_EPOCH:
        session = shares.sessions.advance(key, request.share_session_epoch, client)
    elif may_open:
        session = shares.sessions.open(key, client)
    else:
        raise RequestRejected(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    client.when_disconnected.add(shares.client_disconnected)
    return session


def is_final(request: SessionRequest) -> bool:
    return request.share_session_epoch == FINAL_EPOCH


def acknowledgements(batches: Sequence[AcknowledgementBatch], version: int) -> list[Acknowledgement]:
    """One for each run of offsets with the same type; raises RequestRejected if they are invalid."""
    found: list[Acknowledgement] = []
    next_offset = 0
    for batch in batches:
        types, count = batch.acknowledge_types, batch.last_offset - batch.first_offset + 1
        if batch.first_offset < next_offset or count < 1 or len(types) not in (1, count):
            raise RequestRejected(
                ErrorCode.INVALID_REQUEST, "acknowledgements must be in order, with their types"
            )
        if len(types) == 1:
            found.append(Acknowledgement(batch.first_offset, batch.last_offset, _type(types[0], version)))
        else:
            found += _runs(batch.first_offset, types, version)
        next_offset = batch.last_offset + 1
    return found


def _runs(first_offset: int, types: Sequence[int], version: int) -> Iterable[Acknowledgement]:
    if types.count(types[0]) == len(types):
        yield Acknowledgement(first_offset, first_offset + len(types) - 1, _type(types[0], version))
        return
    for number, run in groupby(types):
        next_offset = first_offset + len([*run])
        yield Acknowledgement(first_offset, next_offset - 1, _type(number, version))
        first_offset = next_offset


def _type(number: int, version: int) -> AcknowledgeType:
    if not 0 <= number <= (AcknowledgeType.RENEW if version >= RENEW_SINCE else AcknowledgeType.REJECT):
        raise RequestRejected(ErrorCode.INVALID_REQUEST, f"{number} is no type of acknowledgement")
    return _TYPES[number]


class Acknowledging:
    """Acknowledgements of one request: they take effect immediately; the response waits until they are durable."""

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
        except RequestRejected as rejected:
            self._outcomes[key] = failure(rejected)

    def _apply(self, key: PartitionKey, batches: Sequence[AcknowledgementBatch]) -> None:
        shares, group_id = self._shares, self._session.key.group_id
        share = shares.get(ShareKey(group_id, key.topic_id, key.partition))
        if share is None:
            raise RequestRejected(unknown_partition(key, self._topics))
        wanted = acknowledgements(batches, self._version)
        if not shares.config(share).may_renew and any(one.type == AcknowledgeType.RENEW for one in wanted):
            raise RequestRejected(ErrorCode.INVALID_REQUEST, "locks of this group can't be renewed")
        writing = shares.acknowledge(share, wanted, member_id=self._session.key.member_id)
        if writing is not None:
            self._writing[key] = writing

    async def outcomes(self) -> Mapping[PartitionKey, Outcome]:
        for key, writing in self._writing.items():
            try:
                await writing
            except (HeadraceError, OSError) as error:
                self._outcomes[key] = failure(error)
        return self._outcomes


def unknown_partition(key: PartitionKey, topics: Topics) -> ErrorCode:
    """Why a partition is unknown."""
    if topics.get_by_id(key.topic_id) is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
