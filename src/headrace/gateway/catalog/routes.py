"""The catalogue over HTTP: JSON for programs, pages for people."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Query, Response

from headrace.gateway.catalog.model import Catalog, EventType
from headrace.gateway.catalog.page import POLICY, event_type_page, list_page
from headrace.gateway.catalog.source import CatalogSource

THREADS_MAX = 2
"""That read the cluster or parse schemas at the same time."""

NAME_CHARS_MAX = 1_000

Name = Annotated[str, Query(max_length=NAME_CHARS_MAX, description="of an event type: a topic, or a subject")]
Search = Annotated[
    str,
    Query(max_length=NAME_CHARS_MAX, description="words, each in the name, the owner or the description"),
]
_JSON: dict[str, Any] = {"content": {"application/json": {}}}


def catalog_router(source: CatalogSource) -> APIRouter:
    router = APIRouter(tags=["catalogue"], default_response_class=Response)
    threads = CapacityLimiter(THREADS_MAX)

    async def find(name: str) -> EventType:
        return await to_thread.run_sync(source.event_type, name, limiter=threads)

    async def catalog(search: str) -> Catalog:
        found = await to_thread.run_sync(source.catalog, limiter=threads)
        return msgspec.structs.replace(found, event_types=found.found(search))

    @router.get(
        "/catalog",
        summary="All event types, or the one with this name and its fields",
        responses={200: _JSON},
    )
    async def show(name: Name = "", search: Search = "") -> Response:
        value = await find(name) if name else await catalog(search)
        return Response(msgspec.json.encode(value), media_type="application/json")

    @router.get(
        "/catalog.html", summary="The same as a page", responses={200: {"content": {"text/html": {}}}}
    )
    async def show_page(name: Name = "", search: Search = "") -> Response:
        if name:
            page = event_type_page(await find(name))
        else:
            page = list_page(await to_thread.run_sync(source.catalog, limiter=threads), search=search)
        response = Response(page, media_type="text/html")
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    return router
