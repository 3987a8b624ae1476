"""`POST /webhooks/NAME` for each source of webhooks, and their metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from headrace.gateway.answers import as_json, error, retry_after
from headrace.gateway.bodies import Bodies
from headrace.gateway.errors import NoSuchPath, Overloaded, UnsupportedContentType
from headrace.gateway.origins import check_origin
from headrace.gateway.settings import GatewaySettings
from headrace.gateway.slots import Slots
from headrace.webhooks.errors import DamagedDefinition
from headrace.webhooks.incoming.answers import Answer
from headrace.webhooks.incoming.counters import WebhookCollector
from headrace.webhooks.incoming.reception import Reception
from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.source import Source

NAME = {
    "name": "name",
    "in": "path",
    "description": "of a source",
    "required": True,
    "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,99}$"},
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The event is in the topic, or was accepted before"},
    202: {"description": "The event is in the buffer on disk, or is a dead letter"},
    401: error("The request is not accepted"),
    403: error("A page of another site"),
    408: error("The body took too long"),
    413: error("The body is too large"),
    415: error("The body is compressed"),
    429: error("Too many requests"),
}


def webhook_router(
    reception: Reception,
    bodies: Bodies,
    requests: Slots,
    settings: GatewaySettings,
    *,
    collectors: Sequence[Collector] = (),
) -> APIRouter:
    """`collectors` are for further metrics."""
    router = APIRouter(tags=["webhooks"])
    registry = CollectorRegistry()
    for each in (WebhookCollector(reception.counters), *collectors):
        registry.register(each)

    @router.post(
        "/webhooks/{name}",
        summary="Receive a webhook",
        responses=RESPONSES,
        openapi_extra={"parameters": [NAME]},
        response_model=None,
    )
    async def receive(request: Request) -> Response:
        check_origin(request, settings)  # browsers let every page send a body
        source = _find(reception, request.path_params["name"])
        _check_encoding(request)
        async with bodies.body(request, bytes_max=source.body_bytes_max) as body:
            with requests.slot():
                answer = await reception.receive(
                    source, WebhookRequest(headers=request.headers.raw, body=body)
                )
        return _response(answer, settings)

    @router.get(
        "/metrics",
        summary="Metrics of webhooks and of the buffer, for Prometheus",
        response_class=PlainTextResponse,
        response_model=None,
    )
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router


def _find(reception: Reception, name: str) -> Source:
    try:
        source = reception.find(name)
    except DamagedDefinition:
        # The error has a path, which the sender must not learn.
        raise Overloaded("not available at the moment", hint="send the same request later") from None
    if source is None:
        raise NoSuchPath("there is no webhook of this name", hint="`headrace webhook in add` adds one")
    return source


def _check_encoding(request: Request) -> None:
    """A signature is that of the bytes that arrive; a small body could become a very large one."""
    encodings = [each.strip().lower() for each in request.headers.getlist("content-encoding")]
    if any(each not in ("", "identity") for each in encodings):
        raise UnsupportedContentType("the body is compressed", hint="send it without Content-Encoding")


def _response(answer: Answer, settings: GatewaySettings) -> Response:
    if answer.is_done:
        return as_json({"result": answer.text}, status=answer.status)
    response = as_json(
        {"error_code": answer.status, "message": answer.text, "hint": ""}, status=answer.status
    )
    if answer.may_succeed_later:
        response.headers["Retry-After"] = retry_after(settings.retry_after_s_max)
    return response
