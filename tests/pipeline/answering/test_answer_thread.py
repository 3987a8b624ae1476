"""The thread that answers: on a real broker, from the files of a state."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import Broker
from headrace.clock import SystemClock
from headrace.kafka.cluster import Cluster
from headrace.pipeline import BadJob, answers
from headrace.pipeline.answering.answer_thread import Answering
from headrace.pipeline.answering.declaration import declared_answers
from headrace.questions import (
    Answer,
    AnswerTimeout,
    BadQuestion,
    NoAnswerer,
    Overloaded,
    QuestionFailed,
    Questions,
)
from headrace.questions.records import (
    ANSWERS,
    QUESTIONS,
    RECORD_BYTES_MAX,
    Reply,
    correlation_id_of,
    question_headers,
)
from tests.pipeline.answering.copied_state import CopiedState

pytestmark = pytest.mark.timeout(120)

WAIT_S = 30.0


class Clock(SystemClock):
    """The time of the system, and what the test adds to it."""

    added_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.added_ms


def total(name: str, clock: Clock | None = None) -> type[Any]:
    @answers(f"total-{name}")
    class Total:
        def partial(self, state: pa.Table, question: dict[str, Any]) -> int | None:
            time.sleep(question.get("slow_s", 0))
            if clock is not None:
                clock.added_ms += question.get("takes_ms", 0)
            if question.get("fails_at") in (*state["url"].to_pylist(), "all"):
                raise ValueError("no such row")
            return sum(state["n"].to_pylist()) or None

        def combine(self, partials: list[int], question: dict[str, Any]) -> Any:
            return eval(question["value"]) if "value" in question else sum(partials)

    return Total


Make = Callable[..., Answering]


@pytest.fixture
def state(tmp_path: Path) -> CopiedState:
    state = CopiedState(tmp_path)
    state.write(3, 0, {"/a": 1, "/b": 2})
    state.write(7, 0, {"/c": 4})
    state.commit(0)
    return state


@pytest.fixture
def make(bootstrap: str, name: str, state: CopiedState) -> Iterator[Make]:
    made: list[Answering] = []

    def make(*, job: str = name, **options: Any) -> Answering:
        declared = declared_answers(job, [total(name, options.get("clock"))])
        made.append(Answering(job, declared, state.partitions, bootstrap=bootstrap, **options))
        return made[-1]

    # Topics; the files of the state are those of the fixture.
    prepare, state.partitions.prepare = state.partitions.prepare, lambda: None  # type: ignore[method-assign]
    yield make
    state.partitions.prepare = prepare  # type: ignore[method-assign]
    for each in made:
        each.stop()


@pytest.fixture
def answering(make: Make) -> Answering:
    answering = make()
    answering.prepare()
    answering.start()
    return answering


@pytest.fixture
def ask(bootstrap: str, name: str, answering: Answering) -> Iterator[Callable[..., Answer]]:
    with Questions(bootstrap) as questions:

        def ask(payload: Any, *, question: str = f"total-{name}", timeout_s: float = WAIT_S) -> Answer:
            deadline_s = time.monotonic() + WAIT_S
            while time.monotonic() < deadline_s:
                with suppress(NoAnswerer):  # until its first heartbeat
                    return questions.ask(question, payload, timeout_s=timeout_s)
                time.sleep(0.02)
            raise AssertionError("the job does not answer")

        yield ask


Ask = Callable[..., Answer]


def send(bootstrap: str, name: str, *correlation_ids: str, value: bytes = b"{}", ms: int = 60_000) -> None:
    """Questions, written before or after the job runs."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for each in correlation_ids:
        headers = question_headers(each, int(time.time() * 1000) + ms)
        producer.produce(f"{QUESTIONS}total-{name}", value, headers=headers)
    assert producer.flush(WAIT_S) == 0


def replies(bootstrap: str, name: str, count: int) -> list[tuple[str, Reply]]:
    """The first answers in the topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test-answers"})
    consumer.assign([TopicPartition(f"{ANSWERS}total-{name}", 0, 0)])
    found: list[tuple[str, Reply]] = []
    deadline_s = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline_s:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(
                (correlation_id_of(message.headers()) or "", Reply.from_json(message.value() or b""))
            )
    consumer.close()
    return found


def test_answer_is_combined_from_all_partitions(ask: Ask, state: CopiedState) -> None:
    answer = ask({})
    assert (answer.value, answer.batch_id, answer.partitions, answer.is_partial) == (7, 0, 2, False)
    state.write(3, 1, {"/a": 10})
    assert ask({}).value == 7
    state.commit(1)
    answer = ask({})
    assert (answer.value, answer.batch_id) == (14, 1)


def test_state_is_found_by_key(ask: Ask, name: str) -> None:
    answer = ask({"key": {"url": "/c"}}, question=f"state.{name}")
    assert answer.value == {"count": 1, "rows": [{"bucket": 7, "url": "/c", "n": 4}]}


@pytest.mark.parametrize("payload", [None, [1], "text", 5])
def test_wrong_payload_is_an_error_answer(payload: Any, ask: Ask) -> None:
    with pytest.raises(BadQuestion, match="Expected `object`"):
        ask(payload)


@pytest.mark.parametrize(
    ("value", "problem"), [(b"\xff{", "malformed"), (b'{"a":' * 100_000, "recursion")], ids=["bytes", "deep"]
)
def test_bytes_that_are_not_json_are_an_error_answer(
    value: bytes, problem: str, bootstrap: str, name: str, answering: Answering
) -> None:
    send(bootstrap, name, "one", value=value)
    ((correlation_id, reply),) = replies(bootstrap, name, 1)
    assert correlation_id == "one"
    assert reply.error is not None
    assert reply.error.kind == "bad-question"
    assert problem in reply.error.message


def test_record_that_is_no_question_is_skipped(bootstrap: str, name: str, ask: Ask) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(f"{QUESTIONS}total-{name}", b"{}")
    assert producer.flush(WAIT_S) == 0
    assert ask({}).value == 7


def test_partition_that_fails_is_marked(ask: Ask) -> None:
    answer = ask({"fails_at": "/c"})
    assert (answer.value, answer.partitions, answer.missing) == (3, 2, (7,))
    assert answer.is_partial
    assert answer.reasons == ("ValueError: no such row",)
    with pytest.raises(QuestionFailed, match=r"no partition answered.*no such row"):
        ask({"fails_at": "all"})


def test_partitions_that_take_too_long_are_marked(bootstrap: str, name: str, make: Make) -> None:
    answering = make(clock=Clock())
    answering.prepare()
    answering.start()
    send(bootstrap, name, "one", value=b'{"takes_ms": 50000}')
    ((_, reply),) = replies(bootstrap, name, 1)
    assert reply.answer is not None
    assert (reply.answer.value, reply.answer.missing) == (3, (7,))
    assert reply.answer.reasons == ("the time-out of the question was near",)


def test_answer_after_the_time_out_reaches_nobody(ask: Ask) -> None:
    ask({})
    with pytest.raises(AnswerTimeout):
        ask({"slow_s": 1.0}, timeout_s=0.3)
    assert ask({}).value == 7


@pytest.mark.parametrize(
    ("value", "problem"),
    [("1 / 0", "ZeroDivisionError"), ("'x' * 2_000_000", "2,000,"), ("float", None), ("{1: {2: 3}}", None)],
)
def test_answer_that_fails_is_an_error_and_the_thread_goes_on(
    value: str, problem: str | None, ask: Ask
) -> None:
    if problem is None:
        ask({"value": value})
    else:
        with pytest.raises(QuestionFailed, match=problem):
            ask({"value": value})
    assert ask({}).value == 7


def test_every_answer_of_up_to_a_megabyte_arrives(ask: Ask) -> None:
    """Also if the record is larger than that, with its headers."""
    overhead = len(Reply(answer=ask({"value": "''"})).to_json())
    size = RECORD_BYTES_MAX - overhead
    assert ask({"value": f"'x' * {size}"}).value == "x" * size
    with pytest.raises(QuestionFailed, match="has 1,000,001 bytes"):
        ask({"value": f"'x' * {size + 1}"})


def test_answer_that_the_broker_rejects_is_logged_and_written_later(
    ask: Ask, bootstrap: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, topic = Cluster(bootstrap, timeout_s=WAIT_S), f"{ANSWERS}total-{name}"
    payload = {"value": "'x' * 5_000"}
    cluster.alter_configs("topic", topic, {"max.message.bytes": "1000"})
    with caplog.at_level(logging.WARNING, "headrace.pipeline"), ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(ask, payload)
        deadline_s = time.monotonic() + WAIT_S
        while "writing answers" not in caplog.text:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        cluster.alter_configs("topic", topic, {"max.message.bytes": "1000000"})
        assert waiting.result(WAIT_S).value == "x" * 5_000


def test_question_in_flight_survives_a_restart_of_the_broker(
    name: str, state: CopiedState, tmp_path: Path
) -> None:
    is_asked = threading.Event()

    @answers(f"total-{name}")
    class Total:
        def partial(self, state: pa.Table, question: dict[str, Any]) -> int:
            is_asked.set()
            time.sleep(question.get("slow_s", 0))
            return sum(state["n"].to_pylist())

        def combine(self, partials: list[int], question: dict[str, Any]) -> int:
            return sum(partials)

    with Broker(str(tmp_path / "data"), port=0) as broker:
        bootstrap = broker.bootstrap
        answering = Answering(name, declared_answers(name, [Total]), state.partitions, bootstrap=bootstrap)
        answering.prepare()  # it deletes the copies, because the checkpoint has no state
        state.write(3, 0, {"/a": 7})
        answering.start()
        questions = Questions(bootstrap)
        threads = ThreadPoolExecutor(1)
        waiting = threads.submit(questions.ask, f"total-{name}", {"slow_s": 1.0}, timeout_s=60)
        assert is_asked.wait(WAIT_S)
    with Broker(str(tmp_path / "data"), port=int(bootstrap.rpartition(":")[2])), questions, threads:
        assert waiting.result(60).value == 7
        assert questions.ask(f"total-{name}", {}, timeout_s=60).value == 7, "both sides go on"
        answering.stop()


def test_more_questions_than_the_bound_are_rejected_as_overloaded(
    bootstrap: str, name: str, make: Make
) -> None:
    answering = make(questions_max=3)
    answering.prepare()
    send(bootstrap, name, *(str(number) for number in range(10)))
    answering.start()
    found = dict(replies(bootstrap, name, 10))
    errors = {key: reply.error for key, reply in found.items() if reply.error is not None}
    assert len(found) == 10
    assert 1 <= len(errors) <= 7
    assert {error.kind for error in errors.values()} == {"overloaded"}
    with pytest.raises(Overloaded, match="answers 3 at a time"):
        raise next(iter(errors.values())).to_error()


def test_question_asked_while_the_job_does_not_run_is_answered_when_it_starts(
    bootstrap: str, name: str, make: Make
) -> None:
    make().prepare()
    send(bootstrap, name, "expired", ms=-1)
    send(bootstrap, name, "waits")
    make().start()
    assert [key for key, _ in replies(bootstrap, name, 1)] == ["waits"]


def test_answered_question_is_not_answered_again_after_a_restart(
    bootstrap: str, name: str, make: Make, answering: Answering
) -> None:
    send(bootstrap, name, "one")
    replies(bootstrap, name, 1)
    answering.stop(is_final=False)
    again = make()
    again.prepare()
    again.start()
    send(bootstrap, name, "two")
    assert [key for key, _ in replies(bootstrap, name, 2)] == ["one", "two"]


def test_question_in_flight_when_the_job_dies_is_answered_by_the_next_one(
    bootstrap: str, name: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read, and nothing was committed; it may be answered twice, with the same correlation id."""
    dying = make()
    dying.prepare()
    monkeypatch.setattr(dying, "_commit", lambda *_arguments, **_options: None)
    dying.start()
    send(bootstrap, name, "one")
    replies(bootstrap, name, 1)
    dying.stop()
    make().start()
    found = replies(bootstrap, name, 2)
    assert [key for key, _ in found] == ["one", "one"]
    assert found[0][1] == found[1][1]


def test_stopped_job_says_so(bootstrap: str, name: str, ask: Ask, answering: Answering) -> None:
    ask({})
    answering.stop()
    with Questions(bootstrap) as questions, pytest.raises(NoAnswerer, match=f"job {name} has stopped"):
        questions.ask(f"total-{name}")


def test_two_jobs_can_not_answer_the_same_question(name: str, make: Make, ask: Ask) -> None:
    ask({})
    with pytest.raises(BadJob, match=f"is answered by job {name}"):
        make(job=f"{name}-other").prepare()


def test_many_askers_at_once_get_their_own_answers(bootstrap: str, name: str, ask: Ask) -> None:
    ask({})
    with Questions(bootstrap) as questions, ThreadPoolExecutor(8) as threads:
        given = threads.map(
            lambda number: questions.ask(f"total-{name}", {"value": str(number)}, timeout_s=WAIT_S).value,
            range(64),
        )
        assert list(given) == list(range(64))


def test_payload_reaches_the_answer_as_it_was_sent(ask: Ask) -> None:
    payload = {"value": "question", "deep": [{"ä": None, "n": 1.5}]}
    assert ask(payload).value == json.loads(json.dumps(payload))
