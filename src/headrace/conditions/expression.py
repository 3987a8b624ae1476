"""A condition as a tree, and as text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct

Value: TypeAlias = str | int | float | bool | bytes | Decimal | datetime | date


class Column(Struct, frozen=True):
    name: str


class Literal(Struct, frozen=True):
    """Never null: `IS NULL` is the only condition on null."""

    value: Value


class Call(Struct, frozen=True):
    """An operator or a function.

    Conditions: `and`, `or` (of any number), `not`, `=`, `<>`, `<`, `<=`, `>`, `>=`, `in`, `between`, `like` (with a
    literal, and a backslash as escape), `is null`. Values: `+`, `-`, `*`, `/`, `%`, `negative`, `abs`, `coalesce`,
    `length`, `lower`, `upper`.

    `/` is the division of floating-point numbers. `/` and `%` by zero are null. `lower` and `upper` change the letters
    of ASCII only. Texts are ordered by code points.
    """

    name: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = Column | Literal | Call


def written(node: Expression) -> str:
    """The text that `text` parses as the same tree."""
    match node:
        case Column(name):
            return quoted(name)
        case Literal(value):
            return _literal(value)
        case Call(name, arguments):
            parts = [written(each) for each in arguments]
            return f"({_CALLS[name](parts) if name in _CALLS else f' {name} '.join(parts)})"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, int | float):
        return repr(value)
    text = value if isinstance(value, str) else value.isoformat()
    return "'" + text.replace("'", "''") + "'"


def _function(name: str) -> Callable[[list[str]], str]:
    return lambda parts: f"{name}({', '.join(parts)})"


_CALLS: dict[str, Callable[[list[str]], str]] = {
    "and": " AND ".join,
    "or": " OR ".join,
    "not": lambda parts: f"NOT {parts[0]}",
    "in": lambda parts: f"{parts[0]} IN ({', '.join(parts[1:])})",
    "between": lambda parts: f"{parts[0]} BETWEEN {parts[1]} AND {parts[2]}",
    "like": lambda parts: f"{parts[0]} LIKE {parts[1]}",
    "is null": lambda parts: f"{parts[0]} IS NULL",
    "negative": lambda parts: f"-{parts[0]}",
    **{name: _function(name) for name in ("abs", "coalesce", "length", "lower", "upper")},
}
