"""The error of a request to a Kafka cluster: the protocol's code, and a hint with the next thing to try."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.names import did_you_mean

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

UNKNOWN_TOPIC = 3
"""`KafkaError.UNKNOWN_TOPIC_OR_PART`."""


class RequestFailed(HeadraceError):
    """The broker rejected a request or did not respond. `code` is Kafka's, or librdkafka's if it is negative."""

    def __init__(self, message: str, *, hint: str = "", code: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code


class NoSuchGroup(RequestFailed):
    """A group that does not exist."""


def no_broker(bootstrap: str, reason: str) -> RequestFailed:
    """No broker responds at the address."""
    return RequestFailed(
        f"no broker answers at {bootstrap}{reason}",
        hint=f"`headrace broker --listen {bootstrap.split(',')[0]}` starts one; "
        "--bootstrap (in Python bootstrap=) names another",
    )


def no_such_topic(topic: str, topics: Iterable[str]) -> RequestFailed:
    return RequestFailed(
        f"there is no topic {topic}",
        hint=did_you_mean(topic, topics) or f"`headrace topic create {topic}` creates it",
        code=UNKNOWN_TOPIC,
    )


def request_failed(error: KafkaError, doing: str) -> RequestFailed:
    """The client's error, with the hint for its code."""
    return RequestFailed(f"{doing}: {error.str()}", hint=_hints().get(error.code(), ""), code=error.code())


@functools.cache
def _hints() -> Mapping[int, str]:
    from confluent_kafka import KafkaError

    unreachable = "is the broker running, and is this its address?"
    return {
        KafkaError._TRANSPORT: unreachable,
        KafkaError._ALL_BROKERS_DOWN: unreachable,
        KafkaError._TIMED_OUT: unreachable,
        KafkaError.TOPIC_ALREADY_EXISTS: "--if-not-exists makes it a success; `headrace topic alter` changes it",
        KafkaError.TOPIC_EXCEPTION: "a topic's name has 1 to 249 letters, digits, '.', '_' and '-'",
        KafkaError.TOPIC_AUTHORIZATION_FAILED: "the client's user has no permission for it on that topic",
        KafkaError.UNKNOWN_TOPIC_OR_PART: "`headrace topic list` lists the topics",
        KafkaError.INVALID_PARTITIONS: "partitions can be added, never removed",
        KafkaError.INVALID_CONFIG: "`headrace topic describe NAME --all-configs` shows names and values",
        KafkaError.NON_EMPTY_GROUP: "stop its consumers first; `headrace group describe NAME` shows them",
        KafkaError.GROUP_ID_NOT_FOUND: "`headrace group list` lists the groups",
        KafkaError.KAFKA_STORAGE_ERROR: "the broker's disk is full or failing; its log names the file",
        KafkaError.MSG_SIZE_TOO_LARGE: "`headrace topic alter NAME --config max.message.bytes=N` raises it",
    }
