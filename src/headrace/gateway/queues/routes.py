"""Routes of queues: receive messages, and accept, release or reject them by their receipts.

A message is locked for the client that received it. The response to an acknowledgement comes after that of the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import msgspec
from confluent_kafka import AcknowledgeType
from fastapi import APIRouter, Depends, Query, Request, Response
from msgspec import Raw, Struct

from headrace.durations import parse_duration_ms
from headrace.errors import HeadraceError
from headrace.gateway.answers import as_json, error, error_answer, retry_after
from headrace.gateway.bodies import Bodies
from headrace.gateway.errors import BadBody, BadRequest, UnsupportedContentType
from headrace.gateway.origins import check_origin
from headrace.gateway.produce_routes import TopicName
from headrace.gateway.queues.answers import AcknowledgedAnswer, ReceivedAnswer
from headrace.gateway.queues.errors import NotAcknowledged, SomeNotAcknowledged, WrongReceipt
from headrace.gateway.queues.leases import Lease
from headrace.gateway.queues.queue import Acknowledgement
from headrace.gateway.queues.queues import Queues
from headrace.gateway.queues.receipts import CHARACTERS_MAX, Receipt, Receipts
from headrace.gateway.records import Format, Record, encoded
from headrace.gateway.settings import GatewaySettings
from headrace.gateway.slots import Slots
from headrace.gateway.stream import json_with
from headrace.gateway.topics import Topics
from headrace.http_parameters import only_known_parameters

GROUP_CHARACTERS_MAX = 255
REASON_CHARACTERS_MAX = 8_192

GroupName = Annotated[
    str,
    Query(min_length=1, max_length=GROUP_CHARACTERS_MAX, description="the workers that share the messages"),
]

WORKED: dict[int | str, dict[str, Any]] = {
    408: error("The body took too long"),
    409: error("A message was not acknowledged: `results` says which"),
    413: error("The body is too large"),
    415: error("The body is not JSON"),
    422: error("The body is wrong"),
}

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["receipts"],
                    "additionalProperties": False,
                    "properties": {
                        "receipts": {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "string", "maxLength": CHARACTERS_MAX},
                        },
                        "reason": {
                            "type": "string",
                            "maxLength": REASON_CHARACTERS_MAX,
                            "description": "of a dead letter, if it becomes one",
                        },
                    },
                }
            }
        },
    }
}


class AcknowledgeBody(Struct, frozen=True, forbid_unknown_fields=True):
    receipts: list[str]
    reason: str = ""


_BODY_DECODER = msgspec.json.Decoder(AcknowledgeBody)


class Workers:
    """Serves the clients of queues."""

    def __init__(
        self, topics: Topics, queues: Queues, bodies: Bodies, settings: GatewaySettings, requests: Slots
    ) -> None:
        self._topics = topics
        self._queues = queues
        self._bodies = bodies
        self._settings = settings
        self._requests = requests
        self._receipts = Receipts()

    async def receive(
        self, request: Request, topic: str, group: str, count: int, wait: str, format: Format
    ) -> Response:
        check_origin(request, self._settings)  # a page could lock messages
        wait_s = self._seconds(wait)
        await self._topics.partitions(topic)
        async with _watched(request) as is_gone:
            count = min(count, self._settings.queue_messages_max)
            taken = await self._queues.open(topic, group).receive(count, wait_s, is_gone)
        messages = [Raw(self._message(each, group, format)) for each in taken]
        return as_json({"messages": messages})

    def _message(self, lease: Lease, group: str, format: Format) -> bytes:
        receipt = self._receipts.text(Receipt(lease.message.topic, group, lease.number))
        left_ms = max(0, int((lease.until_s - time.monotonic()) * 1000))
        return json_with(
            "receipt",
            receipt,
            json_with(
                "lock_ms",
                left_ms,
                json_with(
                    "delivery_count",
                    lease.message.delivery_count,
                    encoded(Record.of(lease.message.raw), format),
                ),
            ),
        )

    async def acknowledge(self, request: Request, topic: str, how: AcknowledgeType) -> Response:
        async with self._bodies.body(request) as body:
            wanted = self._decoded(request, body)
        with self._requests.slot():
            errors = await self._acknowledge(topic, how, wanted)
        results = [_result(*each) for each in zip(wanted.receipts, errors, strict=True)]
        failed = [each for each in errors if each is not None]
        if not failed:
            return as_json({"results": results})
        may_succeed_later = all(isinstance(each, NotAcknowledged) for each in failed)
        kind = NotAcknowledged if may_succeed_later else SomeNotAcknowledged
        problem = kind(
            f"{len(failed)} of {len(errors)} messages were not acknowledged: {failed[0].message}",
            hint="`results` says which",
        )
        response = as_json({**error_answer(problem), "results": results}, status=kind.status)
        if kind.may_succeed_later:
            response.headers["Retry-After"] = retry_after(self._settings.retry_after_s_max)
        return response

    async def _acknowledge(
        self, topic: str, how: AcknowledgeType, wanted: AcknowledgeBody
    ) -> list[HeadraceError | None]:
        """Receipts may be of several groups, each with an answer of its own."""
        errors: list[HeadraceError | None] = [None] * len(wanted.receipts)
        by_group: dict[str, list[tuple[int, Acknowledgement]]] = {}
        for index, text in enumerate(wanted.receipts):
            try:
                receipt = self._read(text, topic)
            except HeadraceError as problem:
                errors[index] = problem
            else:
                asked = Acknowledgement(receipt.number, how, wanted.reason)
                by_group.setdefault(receipt.group, []).append((index, asked))
        for group, asked_of in by_group.items():
            found = await self._queues.open(topic, group).acknowledge([each for _, each in asked_of])
            for (index, _), outcome in zip(asked_of, found, strict=True):
                errors[index] = outcome
        return errors

    def _read(self, text: str, topic: str) -> Receipt:
        receipt = self._receipts.read(text)
        if receipt.topic != topic:
            raise WrongReceipt(
                f"the receipt is of a message of topic {receipt.topic}", hint="acknowledge it at that topic"
            )
        return receipt

    def _decoded(self, request: Request, body: bytes) -> AcknowledgeBody:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise UnsupportedContentType(
                "the content type is not application/json", hint='send {"receipts": [...]} as JSON'
            )
        try:
            wanted = _BODY_DECODER.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise BadBody(f"the body is wrong: {problem}", hint='send {"receipts": ["…"]}') from None
        if not 0 < len(wanted.receipts) <= self._settings.records_max:
            raise BadBody(
                f"the body has {len(wanted.receipts):,} receipts",
                hint=f"send 1 to {self._settings.records_max:,}",
            )
        return wanted

    def _seconds(self, wait: str) -> float:
        wait_ms = parse_duration_ms(wait)
        if wait_ms > self._settings.wait_ms_max:
            raise BadRequest(
                f"wait={wait} is too long",
                hint=f"wait up to {self._settings.wait_ms_max // 1000}s, and repeat the request",
            )
        return wait_ms / 1000


def _result(receipt: str, problem: HeadraceError | None) -> dict[str, Any]:
    return {"receipt": receipt, **({} if problem is None else error_answer(problem))}


@contextlib.asynccontextmanager
async def _watched(request: Request) -> AsyncIterator[Callable[[], bool]]:
    """Whether the client has disconnected. A body, which no such request needs, is read and dropped."""
    disconnected = asyncio.Event()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        disconnected.set()

    watching = asyncio.create_task(watch())
    try:
        yield disconnected.is_set
    finally:
        watching.cancel()


def queue_router(workers: Workers) -> APIRouter:
    router = APIRouter(tags=["queues"])

    @router.post(
        "/queues/{topic}/receive",
        summary="Receive messages, each locked until it is acknowledged or its lock ends",
        responses={200: {"model": ReceivedAnswer}},
        response_model=None,
        dependencies=[Depends(only_known_parameters)],
    )
    async def receive(
        request: Request,
        topic: TopicName,
        group: GroupName,
        max: Annotated[int, Query(ge=1, description="messages; the gateway has a bound, too")] = 1,
        wait: Annotated[
            str, Query(max_length=20, description="how long to wait for a message if there is none: `20s`")
        ] = "0s",
        format: Annotated[Format, Query(description="of values")] = Format.JSON,
    ) -> Response:
        return await workers.receive(request, topic, group, max, wait, format)

    for how, summary in _WAYS.items():
        _add_acknowledging(router, workers, how, summary)
    return router


_WAYS = {
    AcknowledgeType.ACCEPT: "Accept messages: they are processed, and not delivered again",
    AcknowledgeType.RELEASE: "Release messages: they are delivered again, after the back-off of the group",
    AcknowledgeType.REJECT: "Reject messages: they become dead letters, with the reason",
}


def _add_acknowledging(router: APIRouter, workers: Workers, how: AcknowledgeType, summary: str) -> None:
    name = how.name.lower()

    @router.post(
        f"/queues/{{topic}}/{name}",
        name=name,
        summary=summary,
        responses={200: {"model": AcknowledgedAnswer}, **WORKED},
        response_model=None,
        openapi_extra=_BODY,
        dependencies=[Depends(only_known_parameters)],
    )
    async def acknowledge(request: Request, topic: TopicName) -> Response:
        return await workers.acknowledge(request, topic, how)
