"""The common part of joins: the checks of the compared columns, and the names of columns in the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.operators.operator import BadOperator, names, require_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

On = str | Sequence[str] | Mapping[str, str]
"""A column of both sides, several columns, or {name in the rows: name on the other side}."""

Pairs = tuple[tuple[str, str], ...]


def read_on(on: On, *, operator: str) -> Pairs:
    """The pairs of compared columns: the name in the rows, and the name on the other side."""
    if isinstance(on, Mapping):
        here = names(tuple(on), operator=operator, field="on")
        there = names(tuple(on.values()), operator=operator, field="on")
    else:
        here = there = names(on, operator=operator, field="on")
    if not here:
        raise BadOperator(
            operator, "on", "is empty", hint='set on="user", or on={"user": "id"} if the names differ'
        )
    return tuple(zip(here, there, strict=True))


def require_frame(frame: object, *, operator: str, field: str) -> None:
    if not all(hasattr(frame, name) for name in ("schema", "isStreaming", "select")):
        raise BadOperator(
            operator,
            field,
            f"is {type(frame).__name__}, but must be a DataFrame",
            hint="pass the DataFrame of read_topic, or any other DataFrame",
        )


def require_like_sides(rows: DataFrame, other: DataFrame, pairs: Pairs, *, operator: str, field: str) -> None:
    """Raise if only one side is a stream, or if a compared column is missing or has different types."""
    if rows.isStreaming != other.isStreaming:
        kind, other_kind = ("a stream", "bounded") if rows.isStreaming else ("bounded", "a stream")
        raise BadOperator(
            operator,
            field,
            f"is {other_kind}, but the rows are {kind}",
            hint="read both sides with bounded=True, or both as streams",
        )
    require_columns(rows, [here for here, _ in pairs], operator=operator, field="on")
    require_columns(other, [there for _, there in pairs], operator=operator, field="on")
    for here, there in pairs:
        _require_like_keys(rows, other, here, there, operator=operator)


def _require_like_keys(rows: DataFrame, other: DataFrame, here: str, there: str, *, operator: str) -> None:
    from headrace.operators.state.keys import require_plain

    require_plain(rows, here, operator=operator, field="on")
    kind, other_kind = rows.schema[here].dataType, other.schema[there].dataType
    if kind != other_kind:
        raise BadOperator(
            operator,
            "on",
            f"compares {here!r}, which is {kind.simpleString()}, "
            f"with {there!r}, which is {other_kind.simpleString()}",
            hint=f'cast one of them: F.col("{there}").cast("{kind.simpleString()}")',
        )


def names_in_result(
    taken: Iterable[str], added: Iterable[str], *, suffix: str, operator: str
) -> dict[str, str]:
    """The names of the other side's columns in the result. A name that the rows also have gets the suffix."""
    used = set(taken)
    result: dict[str, str] = {}
    for name in added:
        result[name] = name + suffix if name in used else name
    for name, new in result.items():
        others = [each for other, each in result.items() if other != name]
        if new in used or new in others:
            raise BadOperator(
                operator,
                "suffix",
                f"is {suffix!r}, which would make {name!r} a second column {new!r}",
                hint="choose another suffix, or rename the column first",
            )
    return result
