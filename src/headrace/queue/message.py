"""One message as its worker holds it: what it says, and what to do with it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from confluent_kafka import AcknowledgeType

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage

    from headrace.queue.member import Member


class Place(NamedTuple):
    """Which record it is."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


class Settles(Protocol):
    def settle(self, message: Message, how: AcknowledgeType, reason: str) -> None: ...


class Message:
    """Locked for this worker until it is accepted, released or rejected, or its lock ends."""

    __slots__ = ("_queue", "_raw", "is_settled", "locked_until_s", "member")

    def __init__(self, queue: Settles, member: Member, raw: KafkaMessage, locked_until_s: float) -> None:
        self._queue = queue
        self._raw = raw
        self.member = member
        self.locked_until_s = locked_until_s
        """Of the monotonic clock. About then the broker gives it to somebody else."""
        self.is_settled = False

    @property
    def raw(self) -> KafkaMessage:
        """As confluent-kafka has it."""
        return self._raw

    @property
    def value(self) -> bytes:
        """The content; empty if the record has none."""
        return self._raw.value() or b""

    @property
    def key(self) -> bytes | None:
        return self._raw.key()

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """In their order; a name may come more than once."""
        return headers_of(self._raw)

    @property
    def topic(self) -> str:
        return self._raw.topic() or ""

    @property
    def partition(self) -> int:
        number = self._raw.partition()
        return -1 if number is None else number

    @property
    def offset(self) -> int:
        offset = self._raw.offset()
        return -1 if offset is None else offset

    @property
    def place(self) -> Place:
        return Place(self.topic, self.partition, self.offset)

    @property
    def timestamp(self) -> datetime:
        """When it was written, in UTC."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def timestamp_ms(self) -> int:
        """When it was written: the producer's time, or the broker's if the topic says so."""
        return self._raw.timestamp()[1]

    @property
    def delivery_count(self) -> int:
        """Which delivery this is: 1 is the first."""
        return self._raw.delivery_count() or 1

    def accept(self) -> None:
        """Done: nobody gets it again.

        Returns at once; the broker is told in the background. `queue.flush()`, and leaving the queue, wait for it.
        """
        self._queue.settle(self, AcknowledgeType.ACCEPT, "")

    def release(self, reason: str = "") -> None:
        """Not now: somebody gets it again, after the group's back-off. The reason is for its dead letter, if it
        comes to that."""
        self._queue.settle(self, AcknowledgeType.RELEASE, reason)

    def reject(self, reason: str = "") -> None:
        """Never: nobody gets it again; it goes to the group's dead letters, with the reason."""
        self._queue.settle(self, AcknowledgeType.REJECT, reason)

    def __repr__(self) -> str:
        return f"Message({self.place}, delivery_count={self.delivery_count})"


def headers_of(raw: KafkaMessage) -> list[tuple[str, bytes | None]]:
    listed = raw.headers() or []
    pairs = listed.items() if isinstance(listed, dict) else listed
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]
