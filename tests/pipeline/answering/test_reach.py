"""Questions to a running job: from its first batch on, after restarts, and after it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline import BadJob, Job, read_topic
from headrace.pipeline.sinks import Discard, Topic
from headrace.questions import Answer, BadQuestion, NoAnswerer, QuestionFailed, Questions
from tests.pipeline.answering import reach_job
from tests.pipeline.conftest import CreateTopic
from tests.pipeline.journal_sink import Journal

pytestmark = pytest.mark.timeout(300)

WAIT_S = 200.0
Send = Callable[..., None]

FOLLOWS = {"ann": ["f1", "f2"], "bob": ["f2", "f3"], "cat": ["f9"]}


@pytest.fixture
def topics(create_topic: CreateTopic, send: Send, name: str) -> str:
    for prefix in ("posts-", "follows-"):
        create_topic(prefix=prefix)
    pairs = [
        {"author": author, "follower": each} for author, followers in FOLLOWS.items() for each in followers
    ]
    send(f"follows-{name}", *pairs)
    send(f"posts-{name}", *({"author": author, "url": "/one"} for author in ("ann", "bob")))
    return name


def until(
    questions: Questions, question: str, payload: Any, is_right: Callable[[Answer], bool], **options: Any
) -> Answer:
    """The first answer that is right: a job needs some seconds for its first batch."""
    deadline_s = time.monotonic() + WAIT_S
    answer: object = None
    while time.monotonic() < deadline_s:
        with suppress(NoAnswerer):
            answer = questions.ask(question, payload, **{"timeout_s": 60, **options})
            if is_right(answer):
                return answer
        time.sleep(0.1)
    raise AssertionError(f"the last answer was {answer}")


def reaches(count: int) -> Callable[[Answer], bool]:
    return lambda answer: bool(answer.value == {"url": "/one", "reach": count})


def test_reach_of_a_url_is_gathered_from_all_partitions(
    spark: SparkSession, topics: str, send: Send, bootstrap: str
) -> None:
    question = f"reach-{topics}"
    running = reach_job.start(spark, topics)
    with Questions(bootstrap) as questions:
        answer = until(questions, question, {"url": "/one"}, reaches(3))
        assert (answer.job, answer.partitions > 1, answer.is_partial) == (topics, True, False)
        send(f"posts-{topics}", {"author": "cat", "url": "/one"})
        later = until(questions, question, {"url": "/one"}, reaches(4))
        assert (later.batch_id or 0) > (answer.batch_id or 0)
        found = questions.ask(f"state.{topics}", {"key": {"author": "cat"}}, timeout_s=60).value
        assert [(row["author"], row["url"]) for row in found["rows"]] == [("cat", "/one")]
        with pytest.raises(BadQuestion, match=r"at `\$.url`"):
            questions.ask(question, {"url": 7}, timeout_s=60)
        partial = questions.ask(question, {"url": "/one", "fails_in": "cat"}, timeout_s=60)
        assert (partial.value["reach"], partial.is_partial) == (3, True)
        with pytest.raises(BadQuestion, match="no stateful operator 'session'"):
            questions.ask(f"state.{topics}", {"operator": "session"}, timeout_s=60)
        running.stop()
        # A second start reads the state from the checkpoint before any batch runs.
        again = reach_job.start(spark, topics)
        assert until(questions, question, {"url": "/one"}, reaches(4)).batch_id == later.batch_id
        send(f"follows-{topics}", {"author": "cat", "follower": "f10"})
        until(questions, question, {"url": "/one"}, reaches(5))
        again.stop()
    assert again.status().restarts == 0


def test_state_of_spark_is_found_by_key(
    spark: SparkSession, topic: str, send: Send, bootstrap: str, name: str, tmp_path: Path
) -> None:
    send(topic, *({"user": f"u{number % 3}"} for number in range(7)))
    rows = read_topic(spark, topic, schema="user STRING").groupBy("user").count()
    running = Job(name, rows, Journal(tmp_path / "journal.db", key="user"), answers=[]).start()
    with Questions(bootstrap) as questions:
        answer = until(
            questions,
            f"state.{name}",
            {"key": {"user": "u0"}},
            lambda answer: bool(answer.value["count"]),
        )
    running.stop()
    (row,) = answer.value["rows"]
    assert (row["user"], row["count"]) == ("u0", 3)


def test_job_that_can_not_answer_is_rejected(spark: SparkSession, topic: str, name: str) -> None:
    rows = read_topic(spark, topic, schema="user STRING")
    with pytest.raises(BadJob, match="no stateful operator to answer from"):
        Job(name, rows, Topic(f"{topic}-out"), answers=[]).start()
    with pytest.raises(BadJob, match="only micro-batches of a stream"):
        Job(name, rows, Discard(), mode="realtime", answers=[])
    with pytest.raises(BadJob, match="only micro-batches of a stream"):
        Job(name, spark.range(3), Discard(), answers=[])
    with pytest.raises(BadJob, match="is not an answer"):
        Job(name, rows, Discard(), answers=[str])


@contextmanager
def process(bootstrap: str, folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.pipeline.answering.reach_job", bootstrap, str(folder), name]
    started = subprocess.Popen(
        command,
        cwd=Path(__file__).parents[3],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield started
    finally:
        kill(started)


def kill(started: subprocess.Popen[bytes]) -> None:
    """The process, its JVM and their workers, without warning."""
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


@pytest.mark.slow
def test_question_in_flight_when_the_job_is_killed_is_answered_after_its_restart(
    topics: str, bootstrap: str, tmp_path: Path
) -> None:
    question = f"reach-{topics}"
    with Questions(bootstrap) as questions:
        with process(bootstrap, tmp_path, topics) as first:
            until(questions, question, {"url": "/one"}, reaches(3))
            given: list[Answer | Exception] = []

            def ask() -> None:
                try:
                    payload = {"url": "/one", "slow_s": 2.0}
                    given.append(questions.ask(question, payload, timeout_s=WAIT_S))
                except QuestionFailed as error:
                    given.append(error)

            asking = threading.Thread(target=ask)
            asking.start()
            time.sleep(1.0)  # the job has read the question, and two partitions take four seconds
            kill(first)
            assert given == []
        with process(bootstrap, tmp_path, topics):
            asking.join(WAIT_S)
            (answer,) = given
            assert isinstance(answer, Answer)
            assert answer.value == {"url": "/one", "reach": 3}
