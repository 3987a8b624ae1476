"""The errors of queues that callers distinguish."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from confluent_kafka import KafkaError

from headrace.errors import HeadraceError
from headrace.kafka.errors import RequestFailed

_NO_SHARE_GROUPS = (
    KafkaError.INVALID_REQUEST,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._UNSUPPORTED_FEATURE,
)


class QueueError(HeadraceError):
    """Any of the below."""


class QueueUnusable(QueueError):
    """The queue cannot be opened, or the broker rejects its consumer for good."""


class AlreadyAcknowledged(QueueError):
    """A message that was accepted, released or rejected already, or whose queue is closed."""


class AcknowledgementLost(QueueError):
    """The broker rejected acknowledgements: the messages are delivered again."""


class MessageNotStored(QueueError):
    """A message that was put is not confirmed: the broker rejected it, or did not answer in time."""


class NotARequest(QueueError):
    """A reply to a message that does not ask for one."""


class RequestTimedOut(QueueError):
    """No reply was read in time. The request may have been processed."""


class HandlerFailed(QueueError):
    """A worker rejected the request, or failed at its last delivery."""


@contextlib.contextmanager
def queue_errors() -> Iterator[None]:
    """Turn failed requests into QueueUnusable."""
    try:
        yield
    except RequestFailed as error:
        raise QueueUnusable(error.message, hint=error.hint or hint_of(error.code)) from error


def hint_of(code: int | None) -> str:
    return (
        "queues need Headrace's broker, or Apache Kafka 4.2 or later with share.version 1"
        if code in _NO_SHARE_GROUPS
        else ""
    )
