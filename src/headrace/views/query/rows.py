"""A selection of rows in memory, for stores without SQL. It gives the rows that a database would give."""

from __future__ import annotations

import functools
import heapq
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import re2

from headrace.views.definition import Row
from headrace.views.errors import BadView
from headrace.views.query.expression import Call, Column, Expression, Literal
from headrace.views.query.text import condition
from headrace.views.selection import Selection

_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ASCII_UPPER = {code + 32: code for code in range(ord("A"), ord("Z") + 1)}


def selected(rows: Iterable[Row], selection: Selection) -> list[dict[str, Any]]:
    """The rows of the selection, in its order."""
    where = condition(selection.where)
    matching = (row for row in rows if where is None or evaluated(where, row) is True)
    key = functools.cmp_to_key(functools.partial(_compared, selection.order_by))
    first = heapq.nsmallest(selection.offset + selection.limit, matching, key=key)
    return [dict(row) for row in first[selection.offset :]]


def evaluated(node: Expression, row: Row) -> Any:
    """The value for this row; None is SQL's null, also as the result of a condition."""
    match node:
        case Column(name):
            return row.get(name)
        case Literal(value):
            return value
        case Call(name, arguments):
            if name in ("and", "or"):
                return _joined(name, (evaluated(each, row) for each in arguments))
            values = [evaluated(each, row) for each in arguments]
            if name == "is null":
                return values[0] is None
            if name == "coalesce":
                return next((each for each in values if each is not None), None)
            if name == "in":
                return _joined("or", (_applied("=", values[0], each) for each in values[1:]))
            if name == "between":
                value, low, high = values
                return _joined("and", (_applied(">=", value, low), _applied("<=", value, high)))
            return _applied(name, *values)


def _applied(name: str, *values: Any) -> Any:
    return None if any(each is None for each in values) else _FUNCTIONS[name](*values)


def _joined(name: str, values: Iterable[bool | None]) -> bool | None:
    """AND and OR with three values."""
    decisive = name == "or"
    result: bool | None = not decisive
    for value in values:
        if value is decisive:
            return decisive
        if value is None:
            result = None
    return result


def _compared(
    order_by: tuple[tuple[str, bool], ...], one: Mapping[str, Any], other: Mapping[str, Any]
) -> int:
    for name, is_descending in order_by:
        left, right = one.get(name), other.get(name)
        if left is None or right is None:
            if (left is None) != (right is None):
                return 1 if left is None else -1
        elif _order(left, right):
            return -_order(left, right) if is_descending else _order(left, right)
    return 0


def _order(left: Any, right: Any) -> int:
    left, right = _alike(left, right), _alike(right, left)
    try:
        return int(left > right) - int(left < right)
    except TypeError:
        raise BadView(
            f"{left!r} and {right!r} can't be compared",
            hint="compare numbers with numbers, and text with text",
        ) from None


def _alike(value: Any, other: Any) -> Any:
    """A text that is compared with a time is a time; a decimal that is compared with a float is a float."""
    if isinstance(value, str) and isinstance(other, date):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise BadView(
                f"{value!r} is not a time", hint="write 2026-11-18 or 2026-11-18T06:30:00Z"
            ) from None
        if not isinstance(other, datetime):
            return moment.date()
        if other.tzinfo is None:
            return moment.replace(tzinfo=None)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return float(value) if isinstance(value, Decimal) and isinstance(other, float) else value


def _divided(left: Any, right: Any) -> float | None:
    return None if right == 0 else float(left) / float(right)


def _remainder(left: Any, right: Any) -> Any:
    """With the sign of the dividend, as in SQL."""
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return left - right * int(math.copysign(abs(left) // abs(right), left * right))
    return math.fmod(left, right)


@functools.lru_cache(maxsize=64)
def _pattern(like: str) -> Any:
    """Of re2, whose time is linear whatever the pattern."""
    found = re.findall(r"\\(.)|(.)", like, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    parts = [
        re2.escape(escaped) if escaped else wild.get(plain, re2.escape(plain)) for escaped, plain in found
    ]
    return re2.compile(f"(?s){''.join(parts)}")


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "=": lambda left, right: _order(left, right) == 0,
    "<>": lambda left, right: _order(left, right) != 0,
    "<": lambda left, right: _order(left, right) < 0,
    "<=": lambda left, right: _order(left, right) <= 0,
    ">": lambda left, right: _order(left, right) > 0,
    ">=": lambda left, right: _order(left, right) >= 0,
    "like": lambda text, pattern: _pattern(pattern).fullmatch(text) is not None,
    "not": operator.not_,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
    "%": _remainder,
    "negative": operator.neg,
    "abs": abs,
    "length": len,
    "lower": lambda text: text.translate(_ASCII_LOWER),
    "upper": lambda text: text.translate(_ASCII_UPPER),
}
