"""The thread of a job that answers questions.

It reads questions from their topics, evaluates them on the state after the last committed batch, writes the answers,
and commits the offsets of the questions only then. A question that was read and not answered before a crash is
answered after the restart, if its asker still waits. It never touches the query: a slow answer delays no batch.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from msgspec import Struct

from headrace.clock import SystemClock
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import request_failed
from headrace.kafka.retries import retry
from headrace.pipeline.answering.declaration import Answers
from headrace.pipeline.answering.state_partitions import Snapshot, StatePartitions
from headrace.pipeline.errors import BadJob
from headrace.questions.errors import Overloaded, QuestionFailed
from headrace.questions.records import (
    ANSWERS,
    CORRELATION_HEADER,
    GROUP,
    MESSAGE_BYTES_MAX,
    QUESTIONS,
    RECORD_BYTES_MAX,
    TOPIC_CONFIG,
    Answer,
    Asked,
    ErrorReply,
    Heartbeat,
    Reply,
    asked,
)

if TYPE_CHECKING:
    from headrace.clock import Clock

logger = logging.getLogger("headrace.pipeline")

HEARTBEAT_S = 1.0
TAKEN_MS_MAX = 10_000
"""After this time without a heartbeat, another job may answer the question."""

QUESTIONS_MAX = 100
"""Questions that are answered together; those that arrived beyond them are rejected as `Overloaded`."""

READ_MAX = 10_000
"""Questions that are read together, and rejected beyond `QUESTIONS_MAX`."""

BUDGET = 0.8
"""The share of an asker's remaining time that the partitions may take. The answer from some must still arrive."""

FLUSH_S = 10.0
BACKOFF_S = 1.0
STOP_S = 10.0
REASONS_MAX = 3
_POLL_S = 0.1


class _Question(Struct, frozen=True, kw_only=True):
    declared: Answers
    asked: Asked


class Answering:
    """Answers the questions of one job while it runs. `start` and `stop` may alternate."""

    def __init__(
        self,
        job: str,
        declared: Sequence[Answers],
        state: StatePartitions,
        *,
        bootstrap: str,
        questions_max: int = QUESTIONS_MAX,
        clock: Clock | None = None,
    ) -> None:
        self.state = state
        self._job = job
        self._declared = {QUESTIONS + each.question: each for each in declared}
        self._questions_max = questions_max
        self._clock = clock or SystemClock()
        self._cluster = Cluster(
            bootstrap,
            timeout_s=FLUSH_S,
            config={"error_cb": lambda _error: None, "client.id": f"headrace-{job}"},
        )
        self._stopping = threading.Event()
        self._is_beating = threading.Event()
        self._is_final = True
        self._rejected: KafkaError | None = None
        """Why an answer was not written: its question is not committed, and is answered again."""
        self._thread: threading.Thread | None = None

    def prepare(self) -> None:
        """Before the query starts: create the topics, and copy the state of the checkpoint."""
        for topic, declared in self._declared.items():
            for each in (topic, ANSWERS + declared.question):
                self._cluster.create_topic(each, partitions=1, config=TOPIC_CONFIG, exist_ok=True)
        # Brokers learn of a new topic a moment after it was created.
        retry(lambda: self._cluster.require_topics(self._declared), timeout_s=FLUSH_S)
        consumer = self._consumer()
        try:
            for found in consumer.committed(self._partitions(), timeout=FLUSH_S):
                self._check_free(found)
        finally:
            consumer.close()
        self.state.prepare()

    def _check_free(self, found: TopicPartition) -> None:
        other = Heartbeat.from_text(found.metadata)
        if other is None or other.job == self._job or not other.is_running:
            return
        if self._clock.now_ms() - other.at_ms < TAKEN_MS_MAX:
            question = found.topic.removeprefix(QUESTIONS)
            raise BadJob(
                f"job {self._job}: the question {question!r} is answered by job {other.job}",
                hint=f"stop job {other.job}, or give the question another name",
            )

    def start(self) -> None:
        """Returns after the first heartbeat, from which an asker knows the job; without it if no broker responds."""
        self._stopping.clear()
        self._is_beating.clear()
        self._thread = threading.Thread(target=self._run, name=f"headrace-answers-{self._job}", daemon=True)
        self._thread.start()
        self._is_beating.wait(FLUSH_S)

    def stop(self, *, is_final: bool = True) -> None:
        """End after the questions in flight. `is_final`: askers learn that the job has stopped."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._is_final = is_final
            self._stopping.set()
            thread.join(STOP_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._serve()
            except Exception as error:
                logger.warning("job %s: answering questions failed and is retried: %s", self._job, error)
                self._stopping.wait(BACKOFF_S)

    def _serve(self) -> None:
        consumer = self._consumer()
        try:
            # A share of a group would wait for the session of a killed process to end.
            starts = consumer.committed(self._partitions(), timeout=FLUSH_S)
            consumer.assign(starts)
            positions = {each.topic: max(each.offset, 0) for each in starts}
            self._commit(consumer, positions)
            self._is_beating.set()
            beaten_s = time.monotonic()
            producer = Producer(
                self._cluster.client_config(
                    linger_ms=0, enable_idempotence=True, message_max_bytes=MESSAGE_BYTES_MAX
                )
            )
            while not self._stopping.is_set():
                messages = self._arrived(consumer)
                if messages:
                    self._answer(messages, producer)
                    for message in messages:
                        positions[str(message.topic())] = int(message.offset() or 0) + 1
                if messages or time.monotonic() - beaten_s >= HEARTBEAT_S:
                    self._commit(consumer, positions)
                    beaten_s = time.monotonic()
            self._commit(consumer, positions, is_running=not self._is_final)
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer(
            self._cluster.client_config(
                group_id=GROUP, enable_auto_commit=False, auto_offset_reset="earliest", fetch_wait_max_ms=500
            )
        )

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(topic, 0) for topic in self._declared]

    def _commit(self, consumer: Consumer, positions: dict[str, int], *, is_running: bool = True) -> None:
        heartbeat = Heartbeat(job=self._job, at_ms=self._clock.now_ms(), is_running=is_running).to_text()
        consumer.commit(
            offsets=[TopicPartition(topic, 0, offset, heartbeat) for topic, offset in positions.items()],
            asynchronous=False,
        )

    def _arrived(self, consumer: Consumer) -> list[Message]:
        """The first question that arrives, and all that are there by then."""
        first = consumer.poll(_POLL_S)
        if first is None:
            return []
        messages = [first, *consumer.consume(READ_MAX, 0)]
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
        return messages

    def _answer(self, messages: Sequence[Message], producer: Producer) -> None:
        questions = []
        for message in messages:
            found = asked(message.headers(), message.value())
            if found is None:
                logger.warning(
                    "job %s: record %s of %s is not a question: it has no correlation id or no time-out",
                    self._job,
                    message.offset(),
                    message.topic(),
                )
            elif found.expires_ms > self._clock.now_ms():
                questions.append(_Question(declared=self._declared[str(message.topic())], asked=found))
        for question in questions[self._questions_max :]:
            overloaded = Overloaded(
                f"job {self._job} has {len(questions):,} questions, and answers {self._questions_max:,} at a time",
                hint="ask again later",
            )
            self._send(producer, question, Reply(error=ErrorReply.of(overloaded)))
        for question in questions[: self._questions_max]:
            if question.asked.expires_ms > self._clock.now_ms():
                self._send(producer, question, self._reply(question))
                producer.poll(0)
        if producer.flush(FLUSH_S):
            raise QuestionFailed("answers were not written in time", hint="is the broker running?")
        if self._rejected is not None:
            error, self._rejected = self._rejected, None
            raise request_failed(error, "writing answers")

    def _send(self, producer: Producer, question: _Question, reply: Reply) -> None:
        name = question.declared.question
        try:
            value = reply.to_json()
        except Exception as error:  # a value of the user's code, whose conversion fails in any way
            value = _failed(f"the answer to {name!r} can't be written as JSON: {error}").to_json()
        if len(value) > RECORD_BYTES_MAX:
            value = _failed(
                f"the answer to {name!r} has {len(value):,} bytes, and at most {RECORD_BYTES_MAX:,} can be sent"
            ).to_json()
        producer.produce(
            ANSWERS + name,
            value,
            headers=[(CORRELATION_HEADER, question.asked.correlation_id.encode())],
            on_delivery=self._delivered,
        )

    def _delivered(self, error: KafkaError | None, _record: object) -> None:
        self._rejected = error or self._rejected

    def _reply(self, question: _Question) -> Reply:
        try:
            return Reply(answer=self._evaluate(question))
        except HeadraceError as error:
            return Reply(error=ErrorReply.of(error))
        except Exception as error:  # the user's code
            logger.warning(
                "job %s: the answer to %s failed", self._job, question.declared.question, exc_info=True
            )
            return _failed(f"the answer to {question.declared.question!r} failed: {_shown(error)}")

    def _evaluate(self, question: _Question) -> Answer:
        declared = question.declared
        payload = declared.decode(question.asked.payload)
        snapshot = self.state.snapshot(declared.operator_for(payload))
        partials, missing, reasons = self._partials(question, payload, snapshot)
        if missing and len(missing) == len(snapshot.partitions):
            raise QuestionFailed(
                f"no partition answered {declared.question!r}: {reasons[0]}",
                hint="the log of the job has the details",
            )
        return Answer(
            question=declared.question,
            value=declared.combine(partials, payload),
            job=self._job,
            batch_id=snapshot.batch_id,
            partitions=len(snapshot.partitions),
            missing=tuple(missing),
            reasons=tuple(dict.fromkeys(reasons))[:REASONS_MAX],
        )

    def _partials(
        self, question: _Question, payload: Any, snapshot: Snapshot
    ) -> tuple[list[Any], list[int], list[str]]:
        now_ms = self._clock.now_ms()
        until_ms = now_ms + BUDGET * (question.asked.expires_ms - now_ms)
        partials, missing, reasons = [], [], []
        for partition in snapshot.partitions:
            if self._clock.now_ms() > until_ms:
                missing.append(partition.number)
                reasons.append("the time-out of the question was near")
                continue
            try:
                found = question.declared.partial(partition.rows(), payload)
            except HeadraceError:
                raise
            except Exception as error:  # the user's code
                name = question.declared.question
                logger.warning(
                    "job %s: partition %d can't answer %s", self._job, partition.number, name, exc_info=True
                )
                missing.append(partition.number)
                reasons.append(_shown(error))
                continue
            if found is not None:
                partials.append(found)
        return partials, missing, reasons


def _failed(message: str) -> Reply:
    return Reply(error=ErrorReply(kind="failed", message=message))


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
