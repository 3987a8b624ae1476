"""A question whose answers the test writes itself, as records of a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from headrace.clock import SystemClock
from headrace.kafka.cluster import Cluster
from headrace.kafka.retries import retry
from headrace.questions import Answer, Questions
from headrace.questions.records import (
    ANSWERS,
    CORRELATION_HEADER,
    GROUP,
    QUESTIONS,
    ErrorReply,
    Heartbeat,
    Reply,
    correlation_id_of,
)

WAIT_S = 30.0


class JobByHand:
    """The side of the job, record by record."""

    def __init__(self, bootstrap: str, question: str) -> None:
        self.question = question
        cluster = Cluster(bootstrap, timeout_s=WAIT_S)
        for topic in (QUESTIONS + question, ANSWERS + question):
            cluster.create_topic(topic, partitions=1)
        retry(lambda: cluster.require_topics([ANSWERS + question]), timeout_s=WAIT_S)
        config = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = Producer(config)
        self._consumer = Consumer(config | {"group.id": GROUP, "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(QUESTIONS + question, 0, 0)])
        self.beat()

    def beat(self, *, age_ms: int = 0, is_running: bool = True) -> None:
        at_ms = SystemClock().now_ms() - age_ms
        text = Heartbeat(job="by-hand", at_ms=at_ms, is_running=is_running).to_text()
        offsets = [TopicPartition(QUESTIONS + self.question, 0, 0, text)]
        self._consumer.commit(offsets=offsets, asynchronous=False)

    def next(self) -> tuple[str, Message]:
        message = self._consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() is None
        return correlation_id_of(message.headers()) or "", message

    def reply(self, correlation_id: str, value: object = None, *, error: ErrorReply | None = None) -> None:
        answer = Answer(question=self.question, value=value, job="by-hand", batch_id=1, partitions=1)
        self.send(correlation_id, Reply(answer=None if error else answer, error=error).to_json())

    def send(self, correlation_id: str, value: bytes) -> None:
        headers: list[tuple[str, str | bytes | None]] = [(CORRELATION_HEADER, correlation_id.encode())]
        self._producer.produce(ANSWERS + self.question, value, headers=headers)
        assert self._producer.flush(WAIT_S) == 0

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def job(bootstrap: str) -> Iterator[JobByHand]:
    job = JobByHand(bootstrap, f"q-{uuid.uuid4().hex[:12]}")
    yield job
    job.close()


@pytest.fixture
def questions(bootstrap: str) -> Iterator[Questions]:
    with Questions(bootstrap) as questions:
        yield questions
