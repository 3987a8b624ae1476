"""Questions over HTTP: `POST /ask/NAME` with the payload as JSON.

200  the answer; `is_partial` if partitions are missing
400  the payload is wrong           404  no job answers the question
429  the job is overloaded          504  no answer in time
500  the job could not answer       502  the broker did not respond
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from fastapi import FastAPI, Request, Response
from msgspec.structs import asdict

from headrace import http_server
from headrace.errors import HeadraceError
from headrace.http_hosts import ServedHosts
from headrace.loopback import LOOPBACK_NAMES
from headrace.questions.client import TIMEOUT_S, Questions
from headrace.questions.errors import AnswerTimeout, BadQuestion, NoAnswerer, Overloaded, QuestionFailed
from headrace.questions.records import RECORD_BYTES_MAX, Answer

TIMEOUT_S_MAX = 60.0
REQUESTS_MAX = 200
"""In flight."""

_STATUS: dict[type[HeadraceError], int] = {
    BadQuestion: 400,
    NoAnswerer: 404,
    Overloaded: 429,
    AnswerTimeout: 504,
    QuestionFailed: 500,
}


def create_app(questions: Questions, *, hosts: frozenset[str] | None = LOOPBACK_NAMES) -> FastAPI:
    """`hosts` are the names in the header Host that are served, to which no page of another site can point; None stands
    for all."""
    app = FastAPI(title="Headrace questions", openapi_url=None)

    @app.post("/ask/{question}")
    async def ask(question: str, request: Request) -> Response:
        try:
            payload = _decoded(question, await _body(question, request))
            timeout_s = _timeout_s(request.query_params.get("timeout_s"))
            return _response(200, as_dict(await questions.ask_async(question, payload, timeout_s=timeout_s)))
        except HeadraceError as error:
            return _error(_STATUS.get(type(error), 502), error)

    app.add_middleware(ServedHosts, hosts=hosts, rejection=lambda error: _error(400, error))
    return app


def serve(
    questions: Questions,
    host: str,
    port: int,
    *,
    is_open: bool = False,
    on_ready: Callable[[str], None] = print,
) -> None:
    """Until Ctrl-C or SIGTERM. `is_open` allows an address that other machines reach; there is no authentication."""
    http_server.serve(
        lambda hosts: create_app(questions, hosts=hosts),
        host,
        port,
        is_open=is_open,
        exposes="ask",
        failure=QuestionFailed,
        listen_hint="name another address",
        requests_max=REQUESTS_MAX,
        on_ready=on_ready,
    )


def as_dict(answer: Answer) -> dict[str, object]:
    return {**asdict(answer), "is_partial": answer.is_partial}


async def _body(question: str, request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > RECORD_BYTES_MAX:
            raise BadQuestion(
                f"the payload of {question!r} is too large", hint=f"at most {RECORD_BYTES_MAX:,} bytes"
            )
    return bytes(body)


def _decoded(question: str, body: bytes) -> object:
    try:
        return msgspec.json.decode(body or b"null")
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadQuestion(
            f"the payload of {question!r} is not JSON: {error}", hint="send an object"
        ) from error


def _timeout_s(text: str | None) -> float:
    try:
        timeout_s = TIMEOUT_S if text is None else float(text)
    except ValueError:
        timeout_s = -1
    if not 0 < timeout_s <= TIMEOUT_S_MAX:
        raise BadQuestion(f"timeout_s is {text!r}", hint=f"seconds, at most {TIMEOUT_S_MAX:g}")
    return timeout_s


def _error(status: int, error: HeadraceError) -> Response:
    return _response(status, {"error": error.message, "hint": error.hint})


def _response(status: int, value: object) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
