"""Routes that subscribe: server-sent events and WebSockets, of one topic or of several."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Response, WebSocket
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.gateway.answers import error_response
from headrace.gateway.errors import BadRequest
from headrace.gateway.event_ids import CHARACTERS_MAX, EventId
from headrace.gateway.feeds import Feeds
from headrace.gateway.log_reader import LogReader
from headrace.gateway.origins import check_origin
from headrace.gateway.produce_routes import TopicName
from headrace.gateway.read_routes import From
from headrace.gateway.records import Format
from headrace.gateway.server_sent_events import SERVER_SENT_EVENTS, EventStreamResponse
from headrace.gateway.settings import GatewaySettings
from headrace.gateway.slots import Slots
from headrace.gateway.starts import LATEST, Starts
from headrace.gateway.stream import Stream, Wire
from headrace.gateway.subscription import subscribed
from headrace.gateway.topics import Topics
from headrace.gateway.web_sockets import WEB_SOCKET, send_stream
from headrace.http_parameters import only_known_parameters

Format_ = Annotated[Format, Query(alias="format", description="of values")]
LastId = Annotated[
    str | None,
    Query(
        max_length=CHARACTERS_MAX,
        description="the id after which to resume; the header Last-Event-ID overrides it",
    ),
]
LastIdHeader = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=CHARACTERS_MAX, description="browsers send it")
]
OnlyKey = Annotated[
    str | None, Query(alias="key", max_length=10_000, description="only records with this key")
]

TopicNames = Annotated[str, Query(max_length=5_000, description="names, with commas between")]


class Wanted(Struct, frozen=True, kw_only=True):
    topics: Sequence[str]
    start: str | None
    last_id: str | None
    key: str | None
    format: Format


class Streams:
    """Opens streams, as long as there is room."""

    def __init__(
        self,
        topics: Topics,
        starts: Starts,
        log: LogReader,
        feeds: Feeds,
        settings: GatewaySettings,
        subscribers: Slots,
    ) -> None:
        self._topics = topics
        self._starts = starts
        self._log = log
        self._feeds = feeds
        self.settings = settings
        self._subscribers = subscribers

    @contextlib.asynccontextmanager
    async def stream(self, wanted: Wanted, wire: Wire) -> AsyncIterator[Stream]:
        names = [*dict.fromkeys(wanted.topics)]
        if not 0 < len(names) <= self.settings.stream_topics_max:
            raise BadRequest(
                f"a stream has 1 to {self.settings.stream_topics_max} topics", hint="name them: topics=a,b"
            )
        with self._subscribers.slot():
            for name in names:
                await self._topics.partitions(name)
            id = EventId.from_text(wanted.last_id) if wanted.last_id else None
            start = None
            if id is not None:
                start = await self._starts.resumed(names, id)
            elif wanted.start not in (None, LATEST):
                start = await self._starts.at(names, wanted.start or LATEST)

            async def restart(topic: str) -> dict[int, int]:
                assert id is not None
                return (await self._starts.before([topic], id))[topic]

            async with subscribed(
                self._feeds,
                self._log,
                names,
                start,
                page_bytes_max=self.settings.page_bytes_max,
                restart=restart if id is not None else None,
            ) as subscription:
                yield Stream(
                    subscription,
                    wire,
                    cluster=await self._topics.cluster_id(),
                    format=wanted.format,
                    key=None if wanted.key is None else wanted.key.encode(),
                )

    async def respond(self, wanted: Wanted) -> Response:
        """Server-sent events. What is wrong with the request is a response of its own."""
        async with contextlib.AsyncExitStack() as opening:
            stream = await opening.enter_async_context(self.stream(wanted, SERVER_SENT_EVENTS))
            return EventStreamResponse(stream, opening.pop_all(), self.settings)

    async def talk(self, socket: WebSocket, wanted: Wanted) -> None:
        try:
            check_origin(socket, self.settings)
            async with self.stream(wanted, WEB_SOCKET) as stream:
                await socket.accept()
                await send_stream(socket, stream, self.settings)
        except HeadraceError as error:
            await socket.send_denial_response(
                error_response(error, retry_after_s_max=self.settings.retry_after_s_max)
            )


def stream_router(streams: Streams) -> APIRouter:
    router = APIRouter(tags=["subscribe"])
    options: dict[str, Any] = {
        "dependencies": [Depends(only_known_parameters)],
        "response_model": None,
        "responses": {
            200: {
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
                "description": "Events, each with the position after it as its id",
            }
        },
    }

    @router.get("/topics/{topic}/stream", summary="Records as server-sent events", **options)
    async def stream_topic(
        topic: TopicName,
        start: From = None,
        last_event_id: LastId = None,
        last_event_id_header: LastIdHeader = None,
        key: OnlyKey = None,
        format: Format_ = Format.JSON,
    ) -> Response:
        return await streams.respond(
            Wanted(
                topics=[topic],
                start=start,
                last_id=last_event_id_header or last_event_id,
                key=key,
                format=format,
            )
        )

    @router.get("/stream", summary="Records of several topics as server-sent events", **options)
    async def stream_topics(
        topics: TopicNames,
        start: From = None,
        last_event_id: LastId = None,
        last_event_id_header: LastIdHeader = None,
        key: OnlyKey = None,
        format: Format_ = Format.JSON,
    ) -> Response:
        return await streams.respond(
            Wanted(
                topics=_names(topics),
                start=start,
                last_id=last_event_id_header or last_event_id,
                key=key,
                format=format,
            )
        )

    @router.websocket("/topics/{topic}/ws")
    async def talk(
        socket: WebSocket,
        topic: TopicName,
        start: From = None,
        last_event_id: LastId = None,
        key: OnlyKey = None,
        format: Format_ = Format.JSON,
    ) -> None:
        await streams.talk(
            socket, Wanted(topics=[topic], start=start, last_id=last_event_id, key=key, format=format)
        )

    @router.websocket("/ws")
    async def talk_of_topics(
        socket: WebSocket,
        topics: TopicNames,
        start: From = None,
        last_event_id: LastId = None,
        key: OnlyKey = None,
        format: Format_ = Format.JSON,
    ) -> None:
        wanted = Wanted(topics=_names(topics), start=start, last_id=last_event_id, key=key, format=format)
        await streams.talk(socket, wanted)

    return router


def _names(topics: str) -> list[str]:
    return [each.strip() for each in topics.split(",") if each.strip()]
