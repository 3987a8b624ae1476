"""The application: its parts, and which routes use them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from headrace.clock import SystemClock
from headrace.errors import HeadraceError
from headrace.gateway.answers import error, error_response, media_type_of
from headrace.gateway.bodies import Bodies
from headrace.gateway.edge_publisher import EdgePublisher
from headrace.gateway.errors import BadRequest, MethodNotAllowed, NoSuchPath
from headrace.gateway.feeds import Feeds
from headrace.gateway.log_reader import LogReader
from headrace.gateway.produce_routes import produce_router
from headrace.gateway.publisher import Publisher
from headrace.gateway.queues.queues import Queues
from headrace.gateway.queues.routes import Workers, queue_router
from headrace.gateway.read_routes import read_router
from headrace.gateway.registry.other import OtherRegistry
from headrace.gateway.registry.registry import Registry
from headrace.gateway.registry.routes import create_router
from headrace.gateway.request_rates import LimitedRates, RequestRates
from headrace.gateway.schema_formats import SchemaFormats
from headrace.gateway.settings import GatewaySettings
from headrace.gateway.slots import Slots
from headrace.gateway.starts import Starts
from headrace.gateway.stopping import EndedByStop
from headrace.gateway.stream_routes import Streams, stream_router
from headrace.gateway.topic_routes import topic_router
from headrace.gateway.topics import Topics
from headrace.gateway.webhook_routes import webhook_router
from headrace.http_docs_page import add_docs_page
from headrace.http_hosts import ServedHosts
from headrace.http_parameters import only_known_parameters
from headrace.kafka.cluster import Cluster
from headrace.printable import printable
from headrace.webhooks.incoming.reception import Reception

ERRORS: dict[int | str, dict[str, Any]] = {
    400: error("The request is wrong"),
    404: error("There is no such topic or partition"),
    503: error("The same request may succeed later"),
}


def create_app(
    cluster: Cluster,
    settings: GatewaySettings,
    *,
    hosts: frozenset[str] | None = None,
    registry: Registry | OtherRegistry | None = None,
    routers: Sequence[APIRouter] = (),
    webhooks: Reception | None = None,
    edge: EdgePublisher | None = None,
) -> FastAPI:
    """`hosts` are the names in the header Host that are served; all by default. `registry` has the schemas of records
    that are written with one; it is served, unless it is another one. `routers` are further parts. `edge` writes
    records by another overload policy than `block`."""
    topics = Topics(cluster, metadata_ms=settings.metadata_ms)
    publisher = Publisher(cluster.client_config(), settings)
    starts = Starts(topics, SystemClock(), resume_overlap_ms=settings.resume_overlap_ms)
    log = LogReader(cluster, settings)
    feeds = Feeds(topics, settings)
    queues = Queues(cluster, settings)
    bodies = Bodies(settings)
    requests = Slots(settings.requests_max, what="requests")
    subscribers = Slots(settings.subscribers_max, what="streams")

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await feeds.start()
        await queues.start()
        yield
        await queues.close()
        await feeds.close()
        log.close()
        publisher.close()

    app = FastAPI(
        title="Headrace gateway",
        description="Write and read topics over HTTP, and subscribe to them.",
        lifespan=lifespan,
        responses=ERRORS,
        docs_url=None,  # pages that load scripts from other hosts
        redoc_url=None,
    )
    add_docs_page(app)
    write = produce_router(
        topics,
        edge or publisher,
        bodies,
        requests,
        settings,
        with_schemas=None if registry is None else SchemaFormats(registry, records_max=settings.records_max),
    )
    read = read_router(topics, starts, log, feeds, settings, requests=requests, subscribers=subscribers)
    app.include_router(write)
    for router in (topic_router(topics, requests), read):
        app.include_router(router, dependencies=[Depends(only_known_parameters)])
    app.include_router(stream_router(Streams(topics, starts, log, feeds, settings, subscribers)))
    if webhooks is not None:
        collectors = [] if edge is None else [edge.collector]
        app.include_router(webhook_router(webhooks, bodies, requests, settings, collectors=collectors))
    app.include_router(queue_router(Workers(topics, queues, bodies, settings, requests)))
    for router in routers:
        app.include_router(router)
    if isinstance(registry, Registry):
        app.include_router(create_router(registry, settings=settings, bodies=bodies))
    _add_errors(app, settings)
    _add_middleware(app, settings, hosts)
    return app


def _add_errors(app: FastAPI, settings: GatewaySettings) -> None:
    def respond(request: Request, error: HeadraceError) -> Response:
        is_rest = request.headers.get("content-type", "").startswith("application/vnd.kafka")
        return error_response(
            error,
            retry_after_s_max=settings.retry_after_s_max,
            media_type=media_type_of(request, is_rest=is_rest),
        )

    async def on_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HeadraceError)
        return respond(request, error)

    async def on_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        problem = f"the parameter {first['loc'][-1]} is wrong: {first['msg']}"
        return respond(request, BadRequest(problem, hint="/docs lists the parameters"))

    async def on_no_route(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = MethodNotAllowed if error.status_code == MethodNotAllowed.status else NoSuchPath
        problem = f"{request.method} {printable(request.url.path)[:200]}: {error.detail}"
        response = respond(request, kind(problem, hint="/docs lists the paths"))
        response.headers.update(error.headers or {})
        return response

    app.add_exception_handler(HTTPException, on_no_route)
    app.add_exception_handler(HeadraceError, on_error)
    app.add_exception_handler(RequestValidationError, on_invalid)


def _add_middleware(app: FastAPI, settings: GatewaySettings, hosts: frozenset[str] | None) -> None:
    if settings.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.origins, allow_methods=["*"], allow_headers=["*"]
        )
    if settings.requests_per_s_max:
        app.add_middleware(
            LimitedRates,
            rates=RequestRates(per_s=settings.requests_per_s_max, burst=settings.requests_burst),
            clock=time.monotonic,
            retry_after_s_max=settings.retry_after_s_max,
        )

    def rejection(error: HeadraceError) -> Response:
        return error_response(error, retry_after_s_max=settings.retry_after_s_max)

    app.add_middleware(ServedHosts, hosts=hosts, rejection=rejection)
    app.add_middleware(EndedByStop, rejection=rejection)
