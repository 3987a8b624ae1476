"""Transient errors, and retrying until they are over."""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from typing import TypeVar

from confluent_kafka import KafkaError

from headrace.kafka.errors import RequestFailed

T = TypeVar("T")

BACK_OFF_S = 0.05

COORDINATOR_MOVES = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError._WAIT_COORD,
    }
)

TRANSIENT = COORDINATOR_MOVES | {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
}
"""Errors while a broker starts, and right after a topic was created or a leader has changed."""


def retry(call: Callable[[], T], *, timeout_s: float, codes: Container[int | None] = TRANSIENT) -> T:
    """The result of the call, which is retried while it fails with one of these codes."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            return call()
        except RequestFailed as error:
            if error.code not in codes or time.monotonic() >= deadline_s:
                raise
        time.sleep(BACK_OFF_S)
