"""The page after a row. A page begins behind the last row of the one before, and not at a number of rows: rows that
come and go meanwhile make no row appear twice, and skip none."""

from __future__ import annotations

import base64
import math
from collections.abc import Collection
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.conditions.expression import Call, Column, Expression, Literal, Value, written
from headrace.views.definition import Row
from headrace.views.errors import BadView
from headrace.views.selection import Selection

TOKEN_CHARS_MAX = 100_000

_TYPES: dict[str, Any] = {
    "text": str,
    "truth": bool,
    "integer": int,
    "float": float,
    "decimal": Decimal,
    "bytes": bytes,
    "time": datetime,
    "date": date,
    "null": None,
}


class _Place(Struct, frozen=True):
    order_by: tuple[tuple[str, bool], ...]
    after: tuple[tuple[str, Any], ...]
    """The values of the last row, each with its type."""


def page_token(selection: Selection, last: Row) -> str:
    """Of the page that follows this row."""
    values = tuple(_typed(name, last[name]) for name, _ in selection.order_by)
    place = msgspec.json.encode(_Place(selection.order_by, values))
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


def on_page(selection: Selection, token: str, *, key: Collection[str]) -> Selection:
    """The same selection from the page of this token on."""
    place = _place(token)
    if place.order_by != selection.order_by or len(place.after) != len(place.order_by):
        raise _bad_token()
    try:
        values = [msgspec.convert(value, _TYPES[kind], strict=True) for kind, value in place.after]
    except (KeyError, msgspec.ValidationError):
        raise _bad_token() from None
    behind = written(_after(place.order_by, values, key))
    return replace(
        selection, where=f"{selection.where} AND {behind}" if selection.where else behind, offset=0
    )


def _after(
    order_by: tuple[tuple[str, bool], ...], values: list[Value | None], key: Collection[str]
) -> Expression:
    """Equal in the first columns, and behind in the next one; nulls are last."""
    equal: list[Expression] = []
    cases: list[Expression] = []
    for (name, is_descending), value in zip(order_by, values, strict=True):
        column = Column(name)
        if value is None:
            equal.append(Call("is null", (column,)))
            continue
        behind: Expression = Call("<" if is_descending else ">", (column, Literal(value)))
        if name not in key:
            behind = Call("or", (behind, Call("is null", (column,))))
        cases.append(Call("and", (*equal, behind)) if equal else behind)
        equal.append(Call("=", (column, Literal(value))))
    if not cases:
        return Literal(False)
    return cases[0] if len(cases) == 1 else Call("or", tuple(cases))


def _typed(column: str, value: Any) -> tuple[str, Any]:
    if value is None:
        return "null", None
    # A truth is an integer to Python, and a datetime is a date: the first match is the right one.
    found = next((name for name, kind in _TYPES.items() if kind and isinstance(value, kind)), None)
    if found is None or (isinstance(value, float) and not math.isfinite(value)):
        raise BadView(
            f"pages can't be ordered by column {column}, which has {value!r}", hint="order by another column"
        )
    return found, value


def _place(token: str) -> _Place:
    try:
        text = base64.urlsafe_b64decode(token[:TOKEN_CHARS_MAX] + "=" * (-len(token) % 4))
        return msgspec.json.decode(text, type=_Place)
    except (ValueError, msgspec.DecodeError):
        raise _bad_token() from None


def _bad_token() -> BadView:
    return BadView(
        "this is not the token of a page of this selection", hint="pass `next` of the page before, unchanged"
    )
