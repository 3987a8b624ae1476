"""Aggregates as Spark columns, translated to the texts of `aggregates.py`.

    [F.count("*").alias("n"), F.sum("amount").alias("total")]    {"n": "count(*)", "total": "sum(amount)"}

A column is translated only if the core has an aggregate of the same meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.operators.operator import BadOperator

if TYPE_CHECKING:
    from pyspark.sql import Column

Aggregates: TypeAlias = "Mapping[str, str | Column] | Sequence[Column]"
"""Results by name, each a text such as `count(*)` or a Spark column; or Spark columns with an alias."""

_SAME = ("avg", "max", "min", "stddev", "stddev_samp", "sum")
_STARS = ("unresolvedstar()", "1")
_LAMBDA = "lambdafunction("
"""Spark's text of a lambda, which its parser can't read."""

_NUMBER = re.compile(r"([0-9.]+)(?:BD|D|F)?")

SUPPORTED = (
    f"count, {', '.join(_SAME)}, approx_count_distinct(x), percentile(x, p), "
    "first(x, ignorenulls=True) and last(x, ignorenulls=True)"
)


def aggregate_texts(given: Aggregates, *, operator: str) -> dict[str, str]:
    """The text of each aggregate, by the name of its result."""
    if isinstance(given, Mapping):
        named = given.items()
    else:
        named = {_alias(column, operator): column for column in given}.items()
        if len(named) < len(given):
            raise BadOperator(operator, "aggregate", "has two columns of one name", hint="rename one of them")
    return {name: each if isinstance(each, str) else _text(each, operator) for name, each in named}


def _expression(column: Column) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.active()._jsparkSession.expression(column._jc)


def _is_alias(expression: Any) -> bool:
    return bool(expression.getClass().getSimpleName() == "Alias")


def _alias(column: Column, operator: str) -> str:
    if isinstance(column, str):
        raise BadOperator(
            operator, "aggregate", f"has {column!r} without a name", hint=f'aggregate={{"name": "{column}"}}'
        )
    expression = _expression(column)
    if not _is_alias(expression):
        raise BadOperator(
            operator, "aggregate", f"has {expression.sql()} without a name", hint='add .alias("name")'
        )
    return str(expression.name())


def _text(column: Column, operator: str) -> str:
    expression = _expression(column)
    if _is_alias(expression):
        expression = expression.child()
    text = _translated(expression)
    if text is None:
        raise BadOperator(
            operator,
            "aggregate",
            f"has the column {column._jc.toString()}, which is not supported",  # type: ignore[operator]
            hint=f"supported columns are {SUPPORTED}; other aggregates of Spark can be given as text",
        )
    return text


def _translated(expression: Any) -> str | None:
    if expression.getClass().getSimpleName() != "UnresolvedFunction":
        return None
    if expression.isDistinct() or expression.filter().isDefined() or _LAMBDA in expression.sql():
        return None
    function = expression.nameParts().mkString(".").lower()
    match function, [expression.arguments().apply(n).sql() for n in range(expression.arguments().size())]:
        case "count", [only]:
            return "count(*)" if only in _STARS else f"count({only})"
        case name, [only] if name in _SAME:
            return f"{name}({only})"
        case "approx_count_distinct", [only]:
            return f"distinct({only})"
        case (("first" | "last"), [only, "true"]):
            return f"{function}({only})"
        case "percentile", [only, share, "1"] if number := _NUMBER.fullmatch(share):
            return f"percentile({only}, {number[1]})"
    return None
