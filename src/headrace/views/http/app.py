"""The routes. All of them only read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError

from headrace.conditions.text import TEXT_CHARS_MAX
from headrace.durations import parse_duration_ms
from headrace.errors import HeadraceError
from headrace.http_docs_page import add_docs_page
from headrace.http_hosts import ServedHosts
from headrace.http_parameters import only_known_parameters
from headrace.printable import printable
from headrace.views.catalog import Views
from headrace.views.errors import BadView, ViewBehind, ViewUnavailable
from headrace.views.following import Following, Step
from headrace.views.http.answers import (
    ErrorAnswer,
    ListedView,
    PageAnswer,
    SearchAnswer,
    ViewAnswer,
    as_json,
    error_response,
    of_page,
    of_search,
    token,
)
from headrace.views.http.bounds import Bounded, Load
from headrace.views.http.events import SEND_S_MAX, EventStream, events
from headrace.views.http.pool import ReaderPool, UnknownView
from headrace.views.query.kinds import Kind, kind_of
from headrace.views.selection import PAGE_ROWS, ROWS_MAX
from headrace.views.view import ViewReader

THREADS_MAX = 16
"""That read from stores at the same time."""

FOLLOWERS_MAX = 64
"""Each keeps its result in memory: up to ten thousand rows."""

WAIT_S_MAX = 60.0
"""For a position. A client that wants to wait longer repeats the request."""

WAIT_POLL_S = 0.1

T = TypeVar("T")

Name = Annotated[str, Path(max_length=100, description="of a view")]
Where = Annotated[
    str, Query(max_length=TEXT_CHARS_MAX, description="a condition: `city = 'Oslo' AND users > 10`")
]
Order = Annotated[str, Query(max_length=1_000, description="columns: `users DESC, city`")]
Limit = Annotated[int, Query(ge=1, le=ROWS_MAX, description="rows of a page")]
AtLeast = Annotated[
    str | None,
    Query(max_length=100_000, description="the token of a position: the rows are at least as new"),
]
Wait = Annotated[str, Query(max_length=20, description="how long to wait for `at_least`: `5s`")]

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The request is wrong"},
    404: {"model": ErrorAnswer, "description": "There is no such view or row"},
    503: {"model": ErrorAnswer, "description": "The same request may succeed later"},
}


class ViewServer:
    """What the requests share."""

    def __init__(
        self, views: Views, *, followers_max: int = FOLLOWERS_MAX, send_s_max: float = SEND_S_MAX
    ) -> None:
        self.views = views
        self.pool = ReaderPool(views)
        self.followers_max = followers_max
        self.send_s_max = send_s_max
        self.followers = 0
        self.load = Load()
        self._threads = CapacityLimiter(THREADS_MAX)

    async def read(self, name: str, work: Callable[[ViewReader], T]) -> T:
        def in_thread() -> T:
            with self.pool.reader(name) as view:
                return work(view)

        return await to_thread.run_sync(in_thread, limiter=self._threads)

    async def read_in_time(self, name: str, wait: str, work: Callable[[ViewReader], T]) -> T:
        """`work` again until the view is not behind, without a thread while it waits."""
        deadline_s = time.monotonic() + _seconds(wait)
        while True:
            try:
                return await self.read(name, work)
            except ViewBehind:
                if time.monotonic() >= deadline_s:
                    raise
            await asyncio.sleep(WAIT_POLL_S)


def server_of(request: Request) -> ViewServer:
    found: ViewServer = request.app.state.server
    return found


Server = Annotated[ViewServer, Depends(server_of)]


def create_app(server: ViewServer, *, hosts: frozenset[str] | None = None) -> FastAPI:
    """`hosts` are the names in the header Host that are served; all by default."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        server.pool.close()

    app = FastAPI(
        title="Headrace views",
        description="Rows of views, search, and followers.",
        lifespan=lifespan,
        dependencies=[Depends(only_known_parameters)],
        responses=ERRORS,
        docs_url=None,  # pages that load scripts from other hosts
        redoc_url=None,
    )
    add_docs_page(app)
    app.state.server = server
    for path, endpoint, model in ROUTES:
        options: dict[str, Any] = {"response_model": None, "summary": endpoint.__doc__}
        if model is not None:
            options["responses"] = {200: {"model": model}}
        app.get(path, **options)(endpoint)
    app.add_exception_handler(HeadraceError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)

    app.add_middleware(Bounded, load=server.load)
    app.add_middleware(ServedHosts, hosts=hosts, rejection=lambda error: error_response(error, status=403))
    return app


# Views


async def list_views(server: Server) -> Response:
    """All views"""

    def listed() -> list[dict[str, Any]]:
        folders = [server.views.folder(name) for name in server.views.names()]
        return [
            {"name": each.name, "state": each.status().state, "store": each.record().definition.store}
            for each in folders
        ]

    return as_json(await to_thread.run_sync(listed))


async def show_view(name: Name, server: Server) -> Response:
    """One view: columns, position, state"""

    def described(view: ViewReader) -> dict[str, Any]:
        served, position = view.served(), view.position()
        return {
            "name": name,
            "key": served.definition.key,
            "columns": view.columns(),
            "topics": served.definition.topics,
            "store": served.definition.store,
            "state": server.views.folder(name).status().state,
            "version": served.version,
            "is_rebuilding": served.is_rebuilding,
            "position": token(position),
            "offsets": {} if position is None else position.offsets,
        }

    return as_json(await server.read(name, described))


# Rows


async def select_rows(
    name: Name,
    server: Server,
    where: Where = "",
    order: Order = "",
    limit: Limit = PAGE_ROWS,
    page: Annotated[str | None, Query(max_length=100_000, description="`next` of the page before")] = None,
    at_least: AtLeast = None,
    wait: Wait = "0s",
) -> Response:
    """A page of the rows that a condition selects"""
    text = _text(where, order)
    found = await server.read_in_time(
        name, wait, lambda view: view.query(text, page=page, limit=limit, at_least=at_least)
    )
    return as_json(of_page(found))


async def get_row(
    name: Name, key: str, request: Request, server: Server, at_least: AtLeast = None, wait: Wait = "0s"
) -> Response:
    """The row with this key; a key of several columns is several parts of the path"""
    # The path as it was sent: a slash in a value is %2F there.
    parts = request.scope["raw_path"].decode("ascii").split("/rows/", 1)[1].split("/")

    def find(view: ViewReader) -> dict[str, Any] | None:
        names, types = view.served().definition.key, view.columns()
        if len(parts) != len(names):
            raise BadView(
                f"the key of view {name} has {len(names)} columns, and the path has {len(parts)} values",
                hint=f"/views/{name}/rows/{'/'.join(f'{{{each}}}' for each in names)}",
            )
        values = {
            each: _key_value(unquote(part), types.get(each, ""))
            for each, part in zip(names, parts, strict=True)
        }
        return view.get(values, at_least=at_least)

    row = await server.read_in_time(name, wait, find)
    if row is None:
        return error_response(
            BadView(f"view {name} has no row {printable(key)}", hint="it may have been deleted"), status=404
        )
    return as_json(row)


async def search_rows(
    name: Name,
    server: Server,
    q: Annotated[str, Query(max_length=TEXT_CHARS_MAX, description="words, in the language of the index")],
    limit: Annotated[int, Query(ge=1, le=1_000)] = 10,
    offset: Annotated[int, Query(ge=0, le=10_000)] = 0,
    facets: Annotated[str, Query(max_length=1_000, description="columns, with commas between")] = "",
    at_least: AtLeast = None,
    wait: Wait = "0s",
) -> Response:
    """Rows with these words, the best first, for views in a search index"""
    columns = [each.strip() for each in facets.split(",") if each.strip()]
    found = await server.read_in_time(
        name,
        wait,
        lambda view: view.search(q, limit=limit, offset=offset, facets=columns, at_least=at_least),
    )
    return as_json(of_search(found))


async def follow_rows(
    name: Name,
    request: Request,
    server: Server,
    where: Where = "",
    order: Order = "",
    limit: Annotated[int | None, Query(ge=1, le=ROWS_MAX, description="with `order`: the first rows")] = None,
) -> Response:
    """Server-sent events: first the result, then each change of it. Last-Event-ID resumes."""
    if server.followers >= server.followers_max:
        raise ViewUnavailable("too many followers", hint="try again later, or share one among several pages")
    text = _text(where, order) + (f"\nLIMIT {limit}" if limit is not None else "")
    following = Following(text, request.headers.get("last-event-id"))

    async def next_step() -> Step | None:
        return await server.read(name, following.step)

    def end() -> None:
        server.followers -= 1

    server.followers += 1
    try:
        first = await next_step()
    except BaseException:
        end()
        raise
    return EventStream(events(first, next_step), on_end=end, send_s_max=server.send_s_max)


ROUTES: list[tuple[str, Callable[..., Awaitable[Response]], Any]] = [
    ("/views", list_views, list[ListedView]),
    ("/views/{name}", show_view, ViewAnswer),
    ("/views/{name}/rows", select_rows, PageAnswer),
    ("/views/{name}/rows/{key:path}", get_row, dict[str, Any]),
    ("/views/{name}/search", search_rows, SearchAnswer),
    ("/views/{name}/follow", follow_rows, None),
]


def _text(where: str, order: str) -> str:
    parts = [f"WHERE {where}"] if where.strip() else []
    return "\n".join([*parts, f"ORDER BY {order}"] if order.strip() else parts)


def _seconds(wait: str) -> float:
    seconds = parse_duration_ms(wait) / 1000
    if seconds > WAIT_S_MAX:
        raise BadView(
            f"wait={wait} is too long", hint=f"wait up to {WAIT_S_MAX:.0f}s, and repeat the request"
        )
    return seconds


def _key_value(text: str, declared: str) -> str | int | float | bool:
    """A part of the path, as a value of its column."""
    try:
        match kind_of(declared):
            case Kind.INTEGER:
                return int(text)
            case Kind.REAL | Kind.DOUBLE | Kind.DECIMAL:
                return float(text)
            case Kind.BOOLEAN:
                return {"true": True, "false": False}[text.lower()]
    except (ValueError, KeyError):
        raise BadView(f"{text[:100]!r} is not a value of type {declared}", hint="check the key") from None
    return text


async def _on_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HeadraceError)
    return error_response(error, status=404 if isinstance(error, UnknownView) else None)


async def _on_invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return error_response(
        BadView(
            f"the parameter {first['loc'][-1]} is wrong: {first['msg']}", hint="/docs lists the parameters"
        )
    )
