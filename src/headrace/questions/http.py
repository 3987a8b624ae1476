"""Questions over HTTP: `POST /ask/NAME` with the payload as JSON.

200  the answer; `is_partial` if partitions are missing
400  the payload is wrong           404  no job answers the question
429  the job is overloaded          504  no answer in time
500  the job could not answer       502  the broker did not respond
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable

import msgspec
import uvicorn
from fastapi import FastAPI, Request, Response
from msgspec.structs import asdict

from headrace.errors import HeadraceError
from headrace.questions.client import TIMEOUT_S, Questions
from headrace.questions.errors import AnswerTimeout, BadQuestion, NoAnswerer, Overloaded, QuestionFailed
from headrace.questions.records import RECORD_BYTES_MAX, Answer

TIMEOUT_S_MAX = 60.0
REQUESTS_MAX = 200
"""In flight."""
STOP_S = 1

_STATUS: dict[type[HeadraceError], int] = {
    BadQuestion: 400,
    NoAnswerer: 404,
    Overloaded: 429,
    AnswerTimeout: 504,
    QuestionFailed: 500,
}


def create_app(questions: Questions, *, is_local: bool = True) -> FastAPI:
    """`is_local`: reject requests with the name of another host, to which a page of another site may point."""
    app = FastAPI(title="Headrace questions", openapi_url=None)

    @app.post("/ask/{question}")
    async def ask(question: str, request: Request) -> Response:
        try:
            if is_local and not _is_own_name(request.headers.get("host", "")):
                raise BadQuestion(
                    "the header Host is not served", hint="use the address that the server printed"
                )
            payload = _decoded(question, await _body(question, request))
            timeout_s = _timeout_s(request.query_params.get("timeout_s"))
            return _response(200, as_dict(await questions.ask_async(question, payload, timeout_s=timeout_s)))
        except HeadraceError as error:
            return _response(_STATUS.get(type(error), 502), {"error": error.message, "hint": error.hint})

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
    is_local = _is_loopback(host)
    if not is_local and not is_open:
        raise QuestionFailed(
            f"{host or 'an empty host'} is not a loopback address: every machine that reaches it could ask",
            hint="listen on 127.0.0.1, with a proxy that authenticates in front of it; or allow it with --insecure",
        )
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise QuestionFailed(
                f"can't listen on {host}:{port}: {error.strerror}", hint="name another address"
            ) from error
        listener.listen()
        config = uvicorn.Config(
            create_app(questions, is_local=is_local),
            access_log=False,
            log_level="warning",
            limit_concurrency=REQUESTS_MAX,
            timeout_graceful_shutdown=STOP_S,
            http="h11",
        )
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"http://{shown}:{listener.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listener])


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
    except msgspec.DecodeError as error:
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


def _response(status: int, value: object) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _is_own_name(host: str) -> bool:
    return re.sub(r":\d*$", "", host) in ("127.0.0.1", "localhost", "[::1]")


def _is_loopback(host: str) -> bool:
    try:
        found = {ipaddress.ip_address(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except (OSError, ValueError):
        return False
    return bool(found) and all(each.is_loopback for each in found)
