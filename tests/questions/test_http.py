"""Questions over HTTP."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest

from headrace.questions import QuestionFailed, Questions
from headrace.questions.http import create_app, serve
from headrace.questions.records import ErrorReply, Reply
from tests.questions.conftest import JobByHand

pytestmark = pytest.mark.timeout(120)


class Http:
    def __init__(self, questions: Questions) -> None:
        self._app = create_app(questions)

    def post(self, path: str, **options: Any) -> httpx.Response:
        async def post() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return await client.post(path, **options)

        return asyncio.run(post())


@pytest.fixture
def http(questions: Questions) -> Http:
    return Http(questions)


def answered(job: JobByHand, reply: Any) -> threading.Thread:
    thread = threading.Thread(target=lambda: reply(job.next()[0]))
    thread.start()
    return thread


def test_answer_is_json(job: JobByHand, http: Http) -> None:
    thread = answered(job, lambda correlation_id: job.reply(correlation_id, {"reach": 3}))
    response = http.post(f"/ask/{job.question}?timeout_s=30", json={"url": "/"})
    thread.join()
    assert response.status_code == 200
    assert response.json() == {
        "question": job.question,
        "value": {"reach": 3},
        "job": "by-hand",
        "batch_id": 1,
        "partitions": 1,
        "missing": [],
        "reasons": [],
        "is_partial": False,
    }


@pytest.mark.parametrize(("kind", "status"), [("bad-question", 400), ("overloaded", 429), ("failed", 500)])
def test_error_answer_has_its_status(kind: Any, status: int, job: JobByHand, http: Http) -> None:
    error = ErrorReply(kind=kind, message="no", hint="why")
    thread = answered(job, lambda correlation_id: job.send(correlation_id, Reply(error=error).to_json()))
    response = http.post(f"/ask/{job.question}?timeout_s=30", json={})
    thread.join()
    assert (response.status_code, response.json()) == (status, {"error": "no", "hint": "why"})


def test_time_out_and_missing_job_have_their_status(job: JobByHand, http: Http) -> None:
    assert http.post(f"/ask/{job.question}?timeout_s=0.2", json={}).status_code == 504
    assert http.post("/ask/nobody-knows", json={}).status_code == 404


@pytest.mark.parametrize(
    ("query", "content", "problem"),
    [
        ("", b"{", "is not JSON"),
        ("", b"[" * 100_000, "is not JSON: maximum recursion depth"),
        ("?timeout_s=never", b"{}", "timeout_s is 'never'"),
        ("?timeout_s=0", b"{}", "timeout_s is '0'"),
        ("?timeout_s=61", b"{}", "timeout_s is '61'"),
        ("?timeout_s=nan", b"{}", "timeout_s is 'nan'"),
        ("", b'"' + b"x" * 1_000_000 + b'"', "too large"),
    ],
)
def test_wrong_request_is_rejected(
    query: str, content: bytes, problem: str, job: JobByHand, http: Http
) -> None:
    response = http.post(f"/ask/{job.question}{query}", content=content)
    assert response.status_code == 400
    assert problem in response.json()["error"]


def test_name_of_another_host_is_rejected(job: JobByHand, http: Http) -> None:
    response = http.post(f"/ask/{job.question}", json={}, headers={"host": "evil.example"})
    assert response.status_code == 400
    assert "Host" in response.json()["error"]


def test_address_that_other_machines_reach_is_rejected(questions: Questions) -> None:
    with pytest.raises(QuestionFailed, match="not a loopback address"):
        serve(questions, "0.0.0.0", 0)
