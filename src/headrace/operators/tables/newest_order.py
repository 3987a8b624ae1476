"""The order of rows as users write it: names of columns, directions by column, or Spark columns.

    ["at", "post"]                       the greatest first, in every column
    {"score": "desc", "at": "asc"}       as in ORDER BY score DESC, at ASC
    [F.desc("score"), F.asc("at")]       the same

Null is less than every value and NaN is greater, as in Spark: nulls are last in a descending column and first in an
ascending one, unless the direction says otherwise (`asc nulls last`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from headrace.operators.operator import BadOperator, expression_of, is_column, names

if TYPE_CHECKING:
    from pyspark.sql import Column

Order: TypeAlias = "str | Column | Sequence[str] | Sequence[Column] | Mapping[str, str]"
"""Names of columns, the greatest first; {name: "asc" or "desc"}; or Spark columns such as `F.desc("at")`."""

_DIRECTIONS = {
    f"{direction}{nulls}": (
        direction == "desc",
        nulls == " nulls first" or (not nulls and direction == "asc"),
    )
    for direction in ("asc", "desc")
    for nulls in ("", " nulls first", " nulls last")
}


class SortTerm(Struct, frozen=True):
    """One column of an order."""

    name: str
    is_descending: bool = True
    nulls_first: bool = False


def read_order(given: object, *, operator: str) -> tuple[str, ...] | dict[str, str]:
    """The order as names, or as directions by name."""
    if isinstance(given, Mapping):
        names(tuple(given), operator=operator, field="order")
        return {name: _direction(name, each, operator) for name, each in given.items()}
    listed: list[Any] = [given]
    if isinstance(given, Sequence) and not isinstance(given, str):
        listed = list(given)
    columns = [each for each in listed if not isinstance(each, str)]
    if not columns:
        return names(listed, operator=operator, field="order")
    if len(columns) < len(listed):
        raise BadOperator(
            operator,
            "order",
            "has names and Spark columns, and a name alone has another direction in Spark",
            hint='give each column a direction: [F.desc("score"), F.asc("at")]',
        )
    found = [_of_column(each, operator) for each in columns]
    names([name for name, _ in found], operator=operator, field="order")
    return dict(found)


def sort_terms(order: Sequence[str] | Mapping[str, str]) -> tuple[SortTerm, ...]:
    if isinstance(order, Mapping):
        return tuple(SortTerm(name, *_DIRECTIONS[direction]) for name, direction in order.items())
    return tuple(map(SortTerm, order))


def _direction(name: str, given: object, operator: str) -> str:
    text = " ".join(given.lower().split()) if isinstance(given, str) else given
    if text not in _DIRECTIONS:
        raise BadOperator(
            operator,
            "order",
            f"has {given!r} as the direction of {name!r}",
            hint=f"use one of {', '.join(map(repr, _DIRECTIONS))}",
        )
    return str(text)


def _of_column(column: Any, operator: str) -> tuple[str, str]:
    if not is_column(column):
        raise BadOperator(operator, "order", f"has {column!r}", hint='set names of columns: order="at"')
    expression = expression_of(column)
    kind = expression.getClass().getSimpleName()
    if kind != "SortOrder":
        raise BadOperator(
            operator,
            "order",
            f"has the column {expression.sql()} without a direction",
            hint='add one: F.desc("score") or F.asc("score")',
        )
    child = expression.child()
    is_name = child.getClass().getSimpleName() == "UnresolvedAttribute" and child.nameParts().size() == 1
    if not is_name:
        raise BadOperator(
            operator,
            "order",
            f"has the expression {child.sql()}",
            hint='name a column; add it first: rows.withColumn("score", …)',
        )
    direction = f"{expression.direction().sql()} {expression.nullOrdering().sql()}"
    return str(child.nameParts().head()), direction.lower()
