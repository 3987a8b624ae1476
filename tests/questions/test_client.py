"""The asker: answers by correlation id, time-outs, jobs that do not run."""

from __future__ import annotations

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import headrace
from headrace.questions import (
    AnswerTimeout,
    BadQuestion,
    NoAnswerer,
    Overloaded,
    QuestionFailed,
    Questions,
)
from headrace.questions import client as client_module
from headrace.questions.records import ErrorReply
from tests.questions.conftest import JobByHand

pytestmark = pytest.mark.timeout(120)


def reply_to_next(job: JobByHand, value: object) -> threading.Thread:
    thread = threading.Thread(target=lambda: job.reply(job.next()[0], value))
    thread.start()
    return thread


def test_answer_arrives_by_its_correlation_id(job: JobByHand, questions: Questions) -> None:
    with ThreadPoolExecutor(3) as threads:
        asked = [
            threads.submit(questions.ask, job.question, {"number": number}, timeout_s=30)
            for number in range(3)
        ]
        waiting = [job.next() for _ in asked]
        for correlation_id, message in reversed(waiting):
            job.reply("somebody else", "not yours")
            job.reply(correlation_id, (message.value() or b"").decode())
        answers = [each.result(30).value for each in asked]
    assert answers == ['{"number":0}', '{"number":1}', '{"number":2}']


def test_second_answer_to_a_question_is_skipped(job: JobByHand, questions: Questions) -> None:
    """A job that was killed between its answer and its commit answers again."""
    for value in ("first", "other"):
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(questions.ask, job.question, timeout_s=30)
            correlation_id, _ = job.next()
            job.reply(correlation_id, value)
            job.reply(correlation_id, "again")
            assert waiting.result(30).value == value
    assert questions._waiting == {}


def test_time_out_raises_and_leaves_nothing_behind(job: JobByHand, questions: Questions) -> None:
    with pytest.raises(AnswerTimeout, match=r"within 0\.2 s"):
        questions.ask(job.question, timeout_s=0.2)
    assert questions._waiting == {}
    late, _ = job.next()
    job.reply(late, "late")
    thread = reply_to_next(job, "in time")
    assert questions.ask(job.question, timeout_s=30).value == "in time"
    thread.join()


def test_time_out_names_a_job_that_has_stopped_meanwhile(job: JobByHand, questions: Questions) -> None:
    def stop() -> None:
        job.next()
        job.beat(is_running=False)

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(AnswerTimeout) as timed_out:
        questions.ask(job.question, timeout_s=5)
    thread.join()
    assert timed_out.value.hint == "job by-hand has stopped"


def test_question_that_no_job_answers_fails_immediately(job: JobByHand, questions: Questions) -> None:
    with pytest.raises(NoAnswerer, match="no job answers 'nobody-knows'") as missing:
        questions.ask("nobody-knows", timeout_s=30)
    assert '@answers("nobody-knows")' in missing.value.hint
    with pytest.raises(NoAnswerer) as mistyped:
        questions.ask(job.question + "x", timeout_s=30)
    assert mistyped.value.hint == f"did you mean {job.question}?"


def test_job_that_does_not_run_fails_immediately(job: JobByHand, questions: Questions) -> None:
    job.beat(age_ms=60_000)
    with pytest.raises(NoAnswerer, match="does not run, its last heartbeat was 60 s ago"):
        questions.ask(job.question, timeout_s=30)
    job.beat(is_running=False)
    with pytest.raises(NoAnswerer, match="job by-hand has stopped"):
        questions.ask(job.question, timeout_s=30)


@pytest.mark.parametrize(
    ("kind", "error"), [("bad-question", BadQuestion), ("overloaded", Overloaded), ("failed", QuestionFailed)]
)
def test_error_of_the_job_is_raised(
    kind: str, error: type[QuestionFailed], job: JobByHand, questions: Questions
) -> None:
    reply = ErrorReply(kind=kind, message="no", hint="why")  # type: ignore[arg-type]  # one of the parameters
    thread = threading.Thread(target=lambda: job.reply(job.next()[0], error=reply))
    thread.start()
    with pytest.raises(error, match="no") as raised:
        questions.ask(job.question, timeout_s=30)
    thread.join()
    assert type(raised.value) is error
    assert raised.value.hint == "why"


@pytest.mark.parametrize(
    "value", [b"not json", b'{"answer":{"value":' + b"[" * 100_000], ids=["text", "deep"]
)
def test_damaged_answer_is_an_error_and_the_next_one_is_read(
    value: bytes, job: JobByHand, questions: Questions
) -> None:
    thread = threading.Thread(target=lambda: job.send(job.next()[0], value))
    thread.start()
    with pytest.raises(QuestionFailed, match="damaged"):
        questions.ask(job.question, timeout_s=30)
    thread.join()
    thread = reply_to_next(job, "next")
    assert questions.ask(job.question, timeout_s=30).value == "next"
    thread.join()


def test_payload_that_json_does_not_have_is_rejected_before_it_is_sent(
    job: JobByHand, questions: Questions
) -> None:
    with pytest.raises(BadQuestion, match="can't be written as JSON"):
        questions.ask(job.question, {"x": object()})
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadQuestion, match="recursion"):
        questions.ask(job.question, deep)
    with pytest.raises(BadQuestion, match="bytes"):
        questions.ask(job.question, "x" * 1_000_001)
    with pytest.raises(BadQuestion, match="can't be the name"):
        questions.ask("a b")


@pytest.mark.parametrize("timeout_s", [0, -1, 3_601, math.inf, math.nan])
def test_time_out_that_is_no_time_is_rejected(timeout_s: float, job: JobByHand, questions: Questions) -> None:
    with pytest.raises(BadQuestion, match=f"timeout_s is {timeout_s}"):
        questions.ask(job.question, timeout_s=timeout_s)
    assert questions._waiting == {}


def test_waiting_questions_are_bounded(
    job: JobByHand, questions: Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "WAITING_MAX", 0)
    with pytest.raises(Overloaded, match="wait for their answers"):
        questions.ask(job.question)


def test_asyncio_asks_without_blocking(job: JobByHand, questions: Questions) -> None:
    async def both() -> tuple[object, object]:
        answered = asyncio.create_task(questions.ask_async(job.question, timeout_s=30))
        await asyncio.to_thread(lambda: job.reply(job.next()[0], "yes"))
        first = (await answered).value
        with pytest.raises(AnswerTimeout):
            await questions.ask_async(job.question, timeout_s=0.2)
        return first, dict(questions._waiting)

    assert asyncio.run(both()) == ("yes", {})


def test_late_answer_of_a_cancelled_wait_does_not_stop_the_reader(
    job: JobByHand, questions: Questions
) -> None:
    async def cancelled() -> str:
        waiting = asyncio.create_task(questions.ask_async(job.question, timeout_s=30))
        correlation_id, _ = await asyncio.to_thread(job.next)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return correlation_id

    job.reply(asyncio.run(cancelled()), "late")
    thread = reply_to_next(job, "next")
    assert questions.ask(job.question, timeout_s=30).value == "next"
    thread.join()


def test_function_asks_one_question(job: JobByHand, bootstrap: str) -> None:
    thread = reply_to_next(job, 1)
    assert headrace.ask(job.question, {}, bootstrap=bootstrap, timeout_s=30).value == 1
    thread.join()


def test_closed_asker_is_an_error(job: JobByHand, bootstrap: str) -> None:
    questions = Questions(bootstrap)
    questions.close()
    questions.close()
    with pytest.raises(QuestionFailed, match="closed"):
        questions.ask(job.question)
