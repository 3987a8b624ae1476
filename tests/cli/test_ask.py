"""`headrace ask` on a real broker, with a job that the test plays."""

from __future__ import annotations

import json
import threading
import urllib.request
import uuid
from collections.abc import Iterator

import pytest

from headrace.questions.records import Answer, Reply
from tests.cli.conftest import Headrace, next_line, started
from tests.cli.typed_json import json_problems
from tests.questions.conftest import JobByHand

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def job(bootstrap: str) -> Iterator[JobByHand]:
    job = JobByHand(bootstrap, f"q-{uuid.uuid4().hex[:12]}")
    yield job
    job.close()


def reply(job: JobByHand, value: object, *, missing: tuple[int, ...] = ()) -> threading.Thread:
    answer = Answer(
        question=job.question,
        value=value,
        job="by-hand",
        batch_id=1,
        partitions=4,
        missing=missing,
        reasons=("ValueError: no",) if missing else (),
    )
    thread = threading.Thread(target=lambda: job.send(job.next()[0], Reply(answer=answer).to_json()))
    thread.start()
    return thread


def test_answer_is_printed(job: JobByHand, headrace: Headrace) -> None:
    thread = reply(job, {"reach": 3})
    ran = headrace("ask", job.question, '{"url": "/one"}', "--timeout", "30s")
    thread.join()
    assert json.loads(ran.out) == {"reach": 3}


def test_partial_answer_is_marked(job: JobByHand, headrace: Headrace) -> None:
    thread = reply(job, 3, missing=(2,))
    ran = headrace("ask", job.question, "--timeout", "30s", "--format", "json")
    thread.join()
    assert json_problems("ask", ran.out) == []
    shown = json.loads(ran.out)
    assert (shown["value"], shown["missing"], shown["is_partial"]) == (3, [2], True)
    assert "partial: 1 of 4 partitions are missing (ValueError: no)" in ran.err


def test_question_without_an_answer_fails(job: JobByHand, headrace: Headrace) -> None:
    assert "no job answers 'nobody'" in headrace("ask", "nobody", code=1).err
    assert "within 0.2 s" in headrace("ask", job.question, "--timeout", "200ms", code=1).err
    assert "the payload is not JSON" in headrace("ask", job.question, "{", code=1).err
    assert "no question is named" in headrace("ask", code=1).err


def test_questions_are_served_over_http(job: JobByHand, environment: dict[str, str]) -> None:
    with started("ask", "--serve", "127.0.0.1:0", environment=environment) as process:
        address = next_line(process).removeprefix("questions at ").strip()
        thread = reply(job, {"reach": 3})
        request = urllib.request.Request(f"{address}/ask/{job.question}?timeout_s=30", b"{}", method="POST")
        with urllib.request.urlopen(request, timeout=60) as response:
            assert json.loads(response.read())["value"] == {"reach": 3}
        thread.join()
