"""What the routes of the registry share: how paths match, how requests are read, and how responses are written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from anyio import CapacityLimiter, to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from headrace.gateway.answers import retry_after
from headrace.gateway.bodies import Bodies
from headrace.gateway.errors import GatewayError
from headrace.gateway.origins import check_origin
from headrace.gateway.registry import errors
from headrace.gateway.registry.errors import RegistryError
from headrace.gateway.registry.negotiation import JSON_V1, OFFERED, decoded_body, response_type
from headrace.gateway.registry.requests import decode_body
from headrace.gateway.settings import GatewaySettings

THREADS_MAX = 16
"""Requests that read, parse and compare at the same time. Writes take turns."""

BODY_FACTOR = 2
"""A schema is a JSON text within a JSON text, so its quotes are escaped."""

BODY_EXTRA_BYTES = 100_000
"""For what comes with a schema: references, metadata, rules."""

RETRY_AFTER_S_MAX = 5

PROBED = frozenset({"/", "/master_available"})
"""Probes send any header Accept."""

T = TypeVar("T")


class RegistryRoute(APIRoute):
    """A subject may have slashes, which clients encode; so routes match the path as it was sent. Errors and content
    types are those of the registry, whatever the application around it does."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw_path = scope.get("raw_path")
        if scope["type"] != "http" or not raw_path:
            return super().matches(scope)
        match, child = super().matches({**scope, "path": raw_path.decode("latin-1").partition("?")[0]})
        if "path_params" in child:
            child["path_params"] = {name: unquote(str(text)) for name, text in child["path_params"].items()}
        return match, child

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_fail(request: Request) -> Response:
            media_type = JSON_V1
            try:
                if self.path not in PROBED:
                    media_type = response_type(request.headers.get("accept"))
                response = await handle(request)
            except RegistryError as error:
                response = json_response({"error_code": error.code, "message": str(error)}, error.status)
            except GatewayError as error:  # the hint is about settings and routes of the gateway
                response = json_response({"error_code": error.code, "message": error.message}, error.status)
                if error.may_succeed_later:
                    response.headers["Retry-After"] = retry_after(RETRY_AFTER_S_MAX)
            response.headers["content-type"] = media_type
            return response

        return handle_or_fail


class Exchange:
    """Shared by all routes of a registry. `schema_bytes_max` bounds the bodies of requests."""

    def __init__(self, *, schema_bytes_max: int, settings: GatewaySettings, bodies: Bodies) -> None:
        self._body_bytes_max = schema_bytes_max * BODY_FACTOR + BODY_EXTRA_BYTES
        self._settings = settings
        self._bodies = bodies
        self._threads = CapacityLimiter(THREADS_MAX)

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await to_thread.run_sync(work, limiter=self._threads)

    @asynccontextmanager
    async def body(self, request: Request, kind: type[T]) -> AsyncIterator[T]:
        content_type = request.headers.get("content-type")
        if content_type is None:  # browsers let every page send that; for other types they ask
            check_origin(request, self._settings)
        async with self._bodies.body(request, bytes_max=self._body_bytes_max) as body:
            yield decode_body(decoded_body(body, content_type), kind)


def schema_id_of(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise RegistryError(404, 404, "HTTP 404 Not Found")
    if len(text) > 10:
        raise errors.schema_not_found(text[:40])
    return int(text)


def is_set(text: str) -> bool:
    return text.lower() == "true"


def prefix_of(text: str) -> str:
    """`:*:` is all contexts."""
    return text.removeprefix(":*:").removeprefix(":.:")


def page(found: Sequence[T], offset: str, limit: str) -> Sequence[T]:
    try:
        first, count = int(offset[:12]), int(limit[:12])
    except ValueError:
        raise RegistryError(422, 422, "offset and limit are numbers") from None
    first = max(first, 0)
    return found[first:] if count < 0 else found[first : first + count]


def json_response(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=OFFERED[0])


def text_response(text: str) -> Response:
    return Response(text, media_type=OFFERED[0])
