"""The asker: sends a question, and waits for the record with its correlation id.

One thread reads the answers of all questions that wait. Nothing is created for an asker, and nothing is committed: an
asker that ends or times out leaves nothing behind. An answer that nobody waits for (late, or a second one after a
restart of the job) is skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from types import TracebackType
from typing import Any, Self

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from msgspec import Struct

from headrace.clock import Clock, SystemClock
from headrace.kafka.cluster import Cluster, requesting
from headrace.kafka.errors import request_failed
from headrace.kafka.settings import client_settings, require_broker
from headrace.names import did_you_mean
from headrace.questions.errors import AnswerTimeout, BadQuestion, NoAnswerer, Overloaded, QuestionFailed
from headrace.questions.records import (
    ANSWERS,
    GROUP,
    MESSAGE_BYTES_MAX,
    QUESTIONS,
    RECORD_BYTES_MAX,
    Answer,
    Heartbeat,
    Reply,
    check_question,
    correlation_id_of,
    question_headers,
)

TIMEOUT_S = 5.0
"""Longer than a micro-batch of most jobs. A job that restarts needs more."""

TIMEOUT_S_MAX = 3_600
"""Questions and answers are kept for an hour."""

HEARTBEAT_MS_MAX = 10_000
"""A job sends a heartbeat every second. After this time without one, it does not run. Clocks may differ by seconds."""

CHECK_S = 1.0
"""How long the asker trusts what it knows of a job."""

WAITING_MAX = 1_000
"""Questions of one asker that wait at the same time."""

_POLL_S = 0.05


class _Followed(Struct):
    """What an asker knows of a question."""

    heartbeat: Heartbeat | None = None
    checked_s: float = 0.0
    has_answers: bool = False
    """Whether its answers are read."""


class Questions:
    """Asks jobs. Threads may share it; use it as a context manager, or call `close`.

    bootstrap   HOST:PORT of the broker; by default that of the settings
    config      further settings of the Kafka client, such as those for TLS
    """

    def __init__(
        self,
        bootstrap: str | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        settings = client_settings(bootstrap)
        require_broker(settings.bootstrap, settings.timeout_s)
        self._clock = clock or SystemClock()
        self._cluster = Cluster(settings.bootstrap, timeout_s=settings.timeout_s, config=config)
        quiet = {"error_cb": lambda _error: None}
        self._producer = Producer(
            self._cluster.client_config(
                linger_ms=0, enable_idempotence=True, message_max_bytes=MESSAGE_BYTES_MAX
            )
            | quiet
        )
        config = self._cluster.client_config(
            group_id=GROUP, enable_auto_commit=False, auto_offset_reset="latest"
        )
        self._consumer = Consumer(config | quiet)
        # A call to a consumer waits while another thread polls it.
        self._heartbeats = Consumer(config | quiet)
        self._new: queue.SimpleQueue[list[TopicPartition]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._followed: dict[str, _Followed] = {}
        self._waiting: dict[str, Future[Reply]] = {}
        self._is_closed = False
        self._thread = threading.Thread(target=self._read, name="headrace-questions", daemon=True)
        self._thread.start()

    def ask(self, question: str, payload: Any = None, *, timeout_s: float = TIMEOUT_S) -> Answer:
        """The answer. `payload` is a value that JSON has, usually a dict."""
        correlation_id, reply = self._send(question, payload, timeout_s)
        try:
            return _answer(reply.result(timeout_s))
        except TimeoutError as error:
            raise self._timed_out(question, timeout_s) from error
        finally:
            self._waiting.pop(correlation_id, None)

    async def ask_async(self, question: str, payload: Any = None, *, timeout_s: float = TIMEOUT_S) -> Answer:
        """The same for asyncio: the event loop is not blocked."""
        correlation_id, reply = await asyncio.to_thread(self._send, question, payload, timeout_s)
        try:
            return _answer(await asyncio.wait_for(asyncio.wrap_future(reply), timeout_s))
        except TimeoutError as error:
            raise await asyncio.to_thread(self._timed_out, question, timeout_s) from error
        finally:
            self._waiting.pop(correlation_id, None)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._thread.join()
            self._consumer.close()
            self._heartbeats.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, question: str, payload: Any, timeout_s: float) -> tuple[str, Future[Reply]]:
        check_question(question)
        if not 0 < timeout_s <= TIMEOUT_S_MAX:
            raise BadQuestion(f"timeout_s is {timeout_s}", hint=f"seconds, at most {TIMEOUT_S_MAX:,}")
        value = _encoded(question, payload)
        if self._is_closed:
            raise QuestionFailed("the asker is closed", hint="create another Questions()")
        self._follow(question)
        if len(self._waiting) >= WAITING_MAX:
            raise Overloaded(
                f"{WAITING_MAX:,} questions of this program wait for their answers", hint="ask again later"
            )
        correlation_id, reply = uuid.uuid4().hex, Future[Reply]()
        self._waiting[correlation_id] = reply
        expires_ms = self._clock.now_ms() + int(timeout_s * 1_000)

        def delivered(error: KafkaError | None, _record: object) -> None:
            # If the job has the question all the same, its answer is one that nobody waits for.
            if error is not None and self._waiting.pop(correlation_id, None) is reply:
                with contextlib.suppress(InvalidStateError):  # the asker no longer waits
                    reply.set_exception(request_failed(error, f"sending the question {question}"))

        try:
            self._producer.produce(
                QUESTIONS + question,
                value,
                headers=question_headers(correlation_id, expires_ms),
                on_delivery=delivered,
            )
            self._producer.poll(0)
        except (KafkaException, BufferError) as error:
            self._waiting.pop(correlation_id, None)
            raise QuestionFailed(
                f"the question {question} was not sent: {error}", hint="ask again"
            ) from error
        return correlation_id, reply

    def _follow(self, question: str) -> None:
        """Check that a job answers the question, and read its answers from now on."""
        with self._lock:
            followed = self._followed.setdefault(question, _Followed())
            now_s = time.monotonic()
            if now_s - followed.checked_s > CHECK_S or not followed.has_answers:
                followed.heartbeat = self._running(question)
                followed.checked_s = now_s
            if not followed.has_answers:
                self._assign(ANSWERS + question)
                followed.has_answers = True

    def _assign(self, topic: str) -> None:
        ends = self._cluster.latest(self._cluster.partitions(topic))
        self._new.put([TopicPartition(topic, each.number, end) for each, end in ends.items()])

    def _running(self, question: str) -> Heartbeat:
        heartbeat = self._heartbeat(question)
        if heartbeat is None:
            known = [
                topic.removeprefix(QUESTIONS)
                for topic in self._cluster.topics()
                if topic.startswith(QUESTIONS) and topic != QUESTIONS + question
            ]
            raise NoAnswerer(
                f"no job answers {question!r}",
                hint=did_you_mean(question, known)
                or f'start a job that does: @answers("{question}"), Job(…, answers=[…])',
            )
        problem = self._problem(heartbeat)
        if problem:
            raise NoAnswerer(f"no job answers {question!r}: {problem}", hint=f"start the job {heartbeat.job}")
        return heartbeat

    def _problem(self, heartbeat: Heartbeat) -> str:
        if not heartbeat.is_running:
            return f"job {heartbeat.job} has stopped"
        age_ms = self._clock.now_ms() - heartbeat.at_ms
        if age_ms > HEARTBEAT_MS_MAX:
            return f"job {heartbeat.job} does not run, its last heartbeat was {age_ms / 1000:.0f} s ago"
        return ""

    def _heartbeat(self, question: str) -> Heartbeat | None:
        with requesting(f"looking for the job that answers {question}"):
            (found,) = self._heartbeats.committed(
                [TopicPartition(QUESTIONS + question, 0)], timeout=self._cluster.timeout_s
            )
        return Heartbeat.from_text(found.metadata)

    def _timed_out(self, question: str, timeout_s: float) -> AnswerTimeout:
        problem = "does the job answer in time? `headrace job status` shows its batches"
        with contextlib.suppress(QuestionFailed):
            heartbeat = self._heartbeat(question)
            problem = (heartbeat and self._problem(heartbeat)) or problem
        return AnswerTimeout(f"no answer to {question!r} within {timeout_s:g} s", hint=problem)

    def _read(self) -> None:
        """In the thread of the answers."""
        while not self._is_closed:
            self._producer.poll(0)
            while not self._new.empty():
                self._consumer.incremental_assign(self._new.get())
            message = self._consumer.poll(_POLL_S)
            if message is None or message.error() is not None:
                continue
            reply = self._waiting.pop(correlation_id_of(message.headers()) or "", None)
            if reply is None or not reply.set_running_or_notify_cancel():
                continue  # of another asker, late, or answered twice
            try:
                reply.set_result(Reply.from_json(message.value() or b""))
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                reply.set_exception(
                    QuestionFailed(f"the answer is damaged: {error}", hint="upgrade headrace on both sides")
                )


def ask(
    question: str, payload: Any = None, *, timeout_s: float = TIMEOUT_S, bootstrap: str | None = None
) -> Answer:
    """Ask one question. `Questions` is faster for more than one: it stays connected."""
    with Questions(bootstrap) as questions:
        return questions.ask(question, payload, timeout_s=timeout_s)


def _encoded(question: str, payload: Any) -> bytes:
    try:
        value = msgspec.json.encode(payload)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise BadQuestion(
            f"the payload of {question!r} can't be written as JSON: {error}",
            hint="use dicts, lists and numbers",
        ) from error
    if len(value) > RECORD_BYTES_MAX:
        raise BadQuestion(
            f"the payload of {question!r} has {len(value):,} bytes", hint=f"at most {RECORD_BYTES_MAX:,}"
        )
    return value


def _answer(reply: Reply) -> Answer:
    if reply.error is not None:
        raise reply.error.to_error()
    assert reply.answer is not None
    return reply.answer
