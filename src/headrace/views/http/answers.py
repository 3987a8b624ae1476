"""The JSON of responses. The models document it on the page `/docs`; values are encoded by msgspec."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Response
from pydantic import BaseModel, Field

from headrace.errors import HeadraceError
from headrace.kafka.position import Position
from headrace.views.errors import ViewBehind, ViewUnavailable
from headrace.views.following import Step
from headrace.views.reader import SearchResult
from headrace.views.view import Page

RETRY_AFTER_S = "1"


class ListedView(BaseModel):
    name: str
    state: str = Field(description="as `headrace view list` shows it")
    store: str


class ViewAnswer(BaseModel):
    name: str
    key: list[str]
    columns: dict[str, str] = Field(description="each with its type in the store, if it is declared there")
    topics: list[str]
    store: str
    state: str
    version: int
    is_rebuilding: bool = Field(
        description="another version is built; this one is whole and serves until then"
    )
    position: str | None = Field(description="the token of how far the view is, for `at_least`")
    offsets: dict[str, dict[int, int]] = Field(description="the next offset of each partition")


class PageAnswer(BaseModel):
    rows: list[dict[str, Any]]
    next: str | None = Field(description="for `page`: the next page; null if there is none")
    position: str | None
    version: int
    is_rebuilding: bool


class FoundAnswer(BaseModel):
    row: dict[str, Any]
    score: float
    highlights: dict[str, str] = Field(description="HTML: the words that were found are in <b>")


class SearchAnswer(BaseModel):
    total: int
    hits: list[FoundAnswer]
    facets: dict[str, dict[str, int]]


class ErrorAnswer(BaseModel):
    error: str
    hint: str = Field(description="what to do next")
    behind: dict[str, int] | None = Field(
        default=None, description="of a view that is behind: the missing offsets of each partition"
    )


def as_json(value: object, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(encoded(value), status, headers, media_type="application/json")


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)


def token(position: Position | None) -> str | None:
    return None if position is None else position.token()


def of_page(page: Page) -> dict[str, Any]:
    return {
        "rows": page.rows,
        "next": page.next,
        "position": token(page.position),
        "version": page.version,
        "is_rebuilding": page.is_rebuilding,
    }


def of_search(found: SearchResult) -> dict[str, Any]:
    return {"total": found.total, "hits": found.hits, "facets": found.facets}


def of_step(step: Step) -> dict[str, Any]:
    return {
        "changes": step.changes,
        "is_snapshot": step.is_snapshot,
        "position": token(step.position),
        "version": step.version,
        "is_rebuilding": step.is_rebuilding,
    }


def of_error(error: HeadraceError) -> dict[str, Any]:
    found: dict[str, Any] = {"error": error.message, "hint": error.hint}
    return {**found, "behind": error.behind} if isinstance(error, ViewBehind) else found


def error_response(error: HeadraceError, *, status: int | None = None) -> Response:
    """400 for a request that a person has to change, 503 for one that may succeed later."""
    is_passing = isinstance(error, ViewUnavailable)
    return as_json(
        of_error(error),
        status=status or (503 if is_passing else 400),
        headers={"Retry-After": RETRY_AFTER_S} if is_passing else None,
    )
