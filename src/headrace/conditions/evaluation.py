"""The value of a condition for a row in memory: that which a database would give."""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import re2

from headrace.conditions.errors import NotComparable
from headrace.conditions.expression import Call, Column, Expression, Literal

_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ASCII_UPPER = {code + 32: code for code in range(ord("A"), ord("Z") + 1)}


def evaluated(node: Expression, row: Mapping[str, Any]) -> Any:
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
    if any(each is None for each in values):
        return None
    try:
        return _FUNCTIONS[name](*values)
    except (TypeError, AttributeError, ArithmeticError):
        shown = ", ".join(repr(each)[:60] for each in values)
        raise NotComparable(
            f"{name} can't be applied to {shown}", hint="numbers go with numbers, and text with text"
        ) from None


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


def order(left: Any, right: Any) -> int:
    """-1, 0 or 1."""
    left, right = _alike(left, right), _alike(right, left)
    try:
        return int(left > right) - int(left < right)
    except TypeError:
        raise NotComparable(
            f"{left!r} and {right!r} can't be compared",
            hint="compare numbers with numbers, and text with text",
        ) from None


def _alike(value: Any, other: Any) -> Any:
    """A text that is compared with a time is a time; a decimal that is compared with a float is a float."""
    if isinstance(value, str) and isinstance(other, date):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise NotComparable(
                f"{value!r} is not a time", hint="write 2026-11-18 or 2026-11-18T06:30:00Z"
            ) from None
        if not isinstance(other, datetime):
            return moment.date()
        if other.tzinfo is None:
            return moment.replace(tzinfo=None)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return float(value) if isinstance(value, Decimal) and isinstance(other, float) else value


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def applied(left: Any, right: Any) -> Any:
        if isinstance(left, str) or isinstance(right, str):
            raise TypeError
        return function(_alike(left, right), _alike(right, left))

    return applied


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
    "=": lambda left, right: order(left, right) == 0,
    "<>": lambda left, right: order(left, right) != 0,
    "<": lambda left, right: order(left, right) < 0,
    "<=": lambda left, right: order(left, right) <= 0,
    ">": lambda left, right: order(left, right) > 0,
    ">=": lambda left, right: order(left, right) >= 0,
    "like": lambda text, pattern: _pattern(pattern).fullmatch(text) is not None,
    "not": operator.not_,
    "+": _arithmetic(operator.add),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _divided,
    "%": _remainder,
    "negative": operator.neg,
    "abs": abs,
    "length": len,
    "lower": lambda text: text.translate(_ASCII_LOWER),
    "upper": lambda text: text.translate(_ASCII_UPPER),
}
