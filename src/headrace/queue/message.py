"""A message that a worker has locked: its content, and how to acknowledge it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from confluent_kafka import AcknowledgeType
from msgspec import Struct

from headrace.queue.errors import AlreadyAcknowledged
from headrace.queue.reply_to import reply_to

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage

    from headrace.queue.member import Member

logger = logging.getLogger("headrace.queue")


class MessageId(Struct, frozen=True):
    """Topic, partition and offset of a record."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


class Acknowledges(Protocol):
    def acknowledge(self, message: Message, how: AcknowledgeType, reason: str) -> None: ...

    def reply(self, message: Message, value: bytes | str | None) -> None: ...


Errors = type[BaseException] | tuple[type[BaseException], ...]


def verdict(error: BaseException | None, reject_on: Errors) -> tuple[AcknowledgeType, str]:
    """The acknowledgement for this outcome of a handler, and the reason for the dead letter."""
    if error is None:
        return AcknowledgeType.ACCEPT, ""
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return AcknowledgeType.REJECT if isinstance(error, reject_on) else AcknowledgeType.RELEASE, reason


class Delivery:
    """The content of a message that was delivered."""

    __slots__ = ("_raw",)

    def __init__(self, raw: KafkaMessage) -> None:
        self._raw = raw

    @property
    def raw(self) -> KafkaMessage:
        """The message of confluent-kafka."""
        return self._raw

    @property
    def value(self) -> bytes:
        """Empty if the record has none."""
        return self._raw.value() or b""

    @property
    def key(self) -> bytes | None:
        return self._raw.key()

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """In their order; a name may occur more than once."""
        return headers_of(self._raw)

    @property
    def topic(self) -> str:
        return self.id.topic

    @property
    def partition(self) -> int:
        return self.id.partition

    @property
    def offset(self) -> int:
        return self.id.offset

    @property
    def id(self) -> MessageId:
        return id_of(self._raw)

    @property
    def timestamp(self) -> datetime:
        """When it was written, in UTC."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def timestamp_ms(self) -> int:
        """When it was written: the producer's time, or the broker's if the topic has
        `message.timestamp.type=LogAppendTime`."""
        return self._raw.timestamp()[1]

    @property
    def delivery_count(self) -> int:
        """Which delivery this is: 1 is the first."""
        return self._raw.delivery_count() or 1

    @property
    def is_request(self) -> bool:
        """Whether somebody waits for a reply: it was sent by `Queue.request`."""
        return reply_to(self.headers) is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id}, delivery_count={self.delivery_count})"


class Message(Delivery):
    """Locked for this worker until it is accepted, released or rejected, or its lock ends."""

    __slots__ = ("_queue", "is_acknowledged", "locked_until_s", "member")

    def __init__(self, queue: Acknowledges, member: Member, raw: KafkaMessage, locked_until_s: float) -> None:
        super().__init__(raw)
        self._queue = queue
        self.member = member
        self.locked_until_s = locked_until_s
        """By the monotonic clock. About then the broker delivers it to another worker."""
        self.is_acknowledged = False

    def accept(self) -> None:
        """Done: no worker of the group gets it again.

        Returns immediately; the acknowledgement is sent in the background. `queue.flush()`, and leaving the queue, wait
        for the broker's answer.
        """
        self.acknowledge(AcknowledgeType.ACCEPT)

    def release(self, reason: str = "") -> None:
        """Not now: it is redelivered after the group's back-off. The reason is for the dead letter, if this was its
        last delivery."""
        self.acknowledge(AcknowledgeType.RELEASE, reason)

    def reject(self, reason: str = "") -> None:
        """Never: it is not redelivered, and becomes a dead letter of the group, with the reason."""
        self.acknowledge(AcknowledgeType.REJECT, reason)

    def reply(self, value: bytes | str | None = b"") -> None:
        """Reply to a request, and accept it when the reply is stored.

        Raises NotARequest if nobody waits for a reply, AlreadyAcknowledged if it has one, and MessageNotStored if the
        reply can't be stored; then the request is not accepted either.
        """
        self._queue.reply(self, value)

    @contextmanager
    def process(self, *, reject_on: Errors = ()) -> Iterator[None]:
        """Accept the message at the end of the block; release it if the block raises, or reject it for an error in
        `reject_on`. The error is raised again. A block may acknowledge the message itself."""
        try:
            yield
        except BaseException as error:
            self.acknowledge_by(error, reject_on)
            raise
        self.acknowledge_by(None, reject_on)

    def acknowledge_by(self, error: BaseException | None, reject_on: Errors) -> None:
        """Acknowledge by the outcome, unless it is acknowledged already, or was released because its queue was
        closed."""
        if self.is_acknowledged:
            return
        try:
            self.acknowledge(*verdict(error, reject_on))
        except AlreadyAcknowledged as error_of_message:
            logger.warning("%s", error_of_message)

    def acknowledge(self, how: AcknowledgeType, reason: str = "") -> None:
        self._queue.acknowledge(self, how, reason)


def id_of(raw: KafkaMessage) -> MessageId:
    """Of a message that is stored: then the client knows all three."""
    return MessageId(raw.topic() or "", raw.partition() or 0, raw.offset() or 0)


def headers_of(raw: KafkaMessage) -> list[tuple[str, bytes | None]]:
    listed = raw.headers() or []
    pairs = listed.items() if isinstance(listed, dict) else listed
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]
