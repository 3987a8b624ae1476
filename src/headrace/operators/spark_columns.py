"""Aggregates as Spark columns, translated to the texts of `aggregates.py`.

    [F.count("*").alias("n"), F.sum("amount").alias("total")]    {"n": "count(*)", "total": "sum(amount)"}

A column is translated only if the core has an aggregate of the same meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.operators.operator import BadOperator, expression_of, is_column

if TYPE_CHECKING:
    from pyspark.sql import Column

Aggregates: TypeAlias = "Mapping[str, str | Column] | Sequence[Column]"
"""Results by name, each a text such as `count(*)` or a Spark column; or Spark columns with an alias."""

_SAME = ("avg", "max", "min", "stddev", "stddev_samp", "sum")
_KNOWN = ("approx_count_distinct", "count", "first", "last", "percentile", *_SAME)
_STARS = ("unresolvedstar()", "1")
_LAMBDA = "lambdafunction("
"""Spark's text of a lambda, which its parser can't read."""

_NUMBER = re.compile(r"([0-9.]+)(?:BD|D|F)?")

SUPPORTED = (
    f"count, {', '.join(_SAME)}, count_distinct(x), approx_count_distinct(x), percentile(x, p), "
    "first(x, ignorenulls=True) and last(x, ignorenulls=True)"
)


def aggregate_texts(given: object, *, operator: str) -> dict[str, str]:
    """The text of each aggregate, by the name of its result."""
    if isinstance(given, Mapping):
        named = given.items()
    elif isinstance(given, str) or not isinstance(given, Sequence):
        raise BadOperator(
            operator,
            "aggregate",
            f"is {given!r}, but must name its results",
            hint=f'aggregate={{"name": "{given if isinstance(given, str) else "count(*)"}"}}',
        )
    else:
        named = {_alias(column, operator): column for column in given}.items()
        if len(named) < len(given):
            raise BadOperator(operator, "aggregate", "has two columns of one name", hint="rename one of them")
    return {_name(name, operator): _text(each, operator) for name, each in named}


def _name(name: object, operator: str) -> str:
    if not isinstance(name, str):
        raise BadOperator(
            operator,
            "aggregate",
            f"names a result {name!r}, which is not a text",
            hint='such as {"n": "count(*)"}',
        )
    return name


def _require_column(given: object, operator: str) -> None:
    if not is_column(given):
        raise BadOperator(
            operator,
            "aggregate",
            f"has {given!r}, which is neither a text nor a column",
            hint='set a text such as "count(*)", or a column such as F.count("*")',
        )


def _is_alias(expression: Any) -> bool:
    return bool(expression.getClass().getSimpleName() == "Alias")


def _alias(column: Column, operator: str) -> str:
    if isinstance(column, str):
        raise BadOperator(
            operator, "aggregate", f"has {column!r} without a name", hint=f'aggregate={{"name": "{column}"}}'
        )
    _require_column(column, operator)
    expression = expression_of(column)
    if not _is_alias(expression):
        raise BadOperator(
            operator, "aggregate", f"has {expression.sql()} without a name", hint='add .alias("name")'
        )
    return str(expression.name())


def _text(column: Column | str, operator: str) -> str:
    if isinstance(column, str):
        return column
    _require_column(column, operator)
    expression = expression_of(column)
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
    """The text of an aggregate, or of a formula on aggregates; None if one has no translation."""
    text = str(expression.sql())
    if _LAMBDA in text:
        return None
    calls = _aggregate_calls(expression)
    for call in calls:
        translated = _call(call)
        if translated is None:
            return None
        text = text.replace(call.sql(), translated)
    return text if calls else None


def _aggregate_calls(expression: Any) -> list[Any]:
    if expression.getClass().getSimpleName() == "UnresolvedFunction" and _function(expression) in _KNOWN:
        return [expression]
    children = expression.children()
    return [call for n in range(children.size()) for call in _aggregate_calls(children.apply(n))]


def _function(expression: Any) -> str:
    return str(expression.nameParts().mkString(".").lower())


def _call(expression: Any) -> str | None:
    text = _unfiltered(expression)
    if text is None or not expression.filter().isDefined():
        return text
    return f"{text} filter (where {expression.filter().get().sql()})"


def _unfiltered(expression: Any) -> str | None:
    function = _function(expression)
    arguments = [expression.arguments().apply(n).sql() for n in range(expression.arguments().size())]
    if expression.isDistinct():
        return f"count(distinct {', '.join(arguments)})" if function == "count" else None
    match function, arguments:
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
