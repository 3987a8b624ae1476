"""Aggregates as a user writes them, and what becomes of them: a Spark expression, or a fold.

    {"n": "count(*)", "slowest": "max(ms)", "bytes": "sum(length(body))"}

What is inside the brackets is any Spark expression on the row. Where Spark can do the window itself, the aggregate may
be any of Spark's too. The names below mean the same on both ways.

Sketches (`distinct`, `percentile`, `top`) are kept by the core always. Spark's own would give other numbers than the
core's, some of them others for every order of rows, and its exact ones keep every value. `completeness(*)` is about
when rows came, which Spark's own windows do not tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from headrace.operators.folds import (
    CollectFold,
    CompletenessFold,
    CountFold,
    DeviationFold,
    EdgeFold,
    ExtremeFold,
    Fold,
    MeanFold,
    SumFold,
)
from headrace.operators.operator import BadOperator
from headrace.operators.sketches import TOP_RESULTS_MAX, DistinctFold, PercentileFold, TopFold

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLLECT_COUNT_MAX = 1_000
"""How many values `collect(x)` keeps for a window, unless it says `collect(x, n)`: state must have a bound."""

SKETCHES = ("distinct", "percentile", "top")
COMPLETENESS = "completeness"

_ARGUMENTS_MAX = {"collect": 2, "percentile": 2, "top": 2}
_CALL = re.compile(r"\s*([a-z_]+)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)


class Aggregate(Struct, frozen=True, kw_only=True):
    """One result column."""

    name: str
    text: str
    function: str
    """In lower case; empty if the text is no plain call, which only Spark itself can work out."""
    arguments: tuple[str, ...]

    @property
    def input(self) -> str | None:
        """The expression whose values are aggregated; None for `count(*)`."""
        if self.arguments[:1] == ("*",):
            return None
        inside = self.arguments[0]
        if self.function == "distinct":
            # Hashed by Spark, where any value can be; its hash of null would be one of a value.
            return f"if(({inside}) is null, null, xxhash64({inside}))"
        return f"cast(({inside}) as double)" if self.function == "rate" else inside

    def has_fold(self) -> bool:
        return self.function in _FOLDS or self.function in _FOLDS_OF_ROWS

    @property
    def is_for_core(self) -> bool:
        return self.function in (*SKETCHES, COMPLETENESS)

    def fold(self, values: pa.DataType | None, *, operator: str) -> Fold:
        """For values of this type; None where there is no `input`."""
        if values is None:
            return _FOLDS_OF_ROWS[self.function]()
        return _FOLDS[self.function](self, values, operator)


def read_aggregates(said: Mapping[str, str], *, operator: str) -> tuple[Aggregate, ...]:
    if not said:
        raise BadOperator(operator, "aggregate", "is empty", hint='such as aggregate={"n": "count(*)"}')
    return tuple(_read(name, text, operator) for name, text in said.items())


def are_for_spark(aggregates: tuple[Aggregate, ...], *, operator: str) -> bool:
    """Whether Spark's own window will do for these; it won't for what only the core keeps."""
    own = [each for each in aggregates if not each.has_fold()]
    for_core = [each for each in aggregates if each.is_for_core]
    if own and for_core:
        raise BadOperator(
            operator,
            "aggregate",
            f"has {for_core[0].text!r}, which Headrace keeps, beside {own[0].text!r}, which only Spark can work out",
            hint="two windows, or Spark's own approx_percentile, approx_count_distinct or approx_top_k for the former",
        )
    return not for_core


def require_folds(aggregates: tuple[Aggregate, ...], *, operator: str, why: str) -> None:
    for each in aggregates:
        if not each.has_fold():
            raise BadOperator(
                operator,
                "aggregate",
                f"has {each.name!r}: {each.text!r}, which can't be kept {why}",
                hint=f"one of {', '.join(sorted({*_FOLDS, *_FOLDS_OF_ROWS}))}, of any expression on the row",
            )


def native_column(aggregate: Aggregate, time: str) -> Column:
    """As an expression of Spark's own, which means the same as the fold."""
    from pyspark.sql import functions as F

    function, text = aggregate.function, aggregate.text
    if function in ("first", "last", "collect"):
        inside = F.expr(aggregate.arguments[0])
        timed = F.when(inside.isNotNull(), F.struct(F.col(time).alias("time"), inside.alias("value")))
        if function == "collect":
            sorted_values = F.transform(F.array_sort(F.collect_list(timed)), lambda each: each["value"])
            return F.slice(sorted_values, 1, _count_max(aggregate, "")).alias(aggregate.name)
        return (F.min(timed) if function == "first" else F.max(timed))["value"].alias(aggregate.name)
    if function == "rate":
        text = "count(*)" if aggregate.input is None else f"sum({aggregate.input})"
    elif function == "sum" and aggregate.input is not None:
        text = f"sum({aggregate.input})"
    return F.expr(text).alias(aggregate.name)


def with_rates(results: DataFrame, aggregates: tuple[Aggregate, ...]) -> DataFrame:
    """Results in which rates are sums and counts still, with these divided by the seconds of their window."""
    from pyspark.sql import functions as F

    rates = [each.name for each in aggregates if each.function == "rate"]
    if not rates:
        return results
    length_us = F.unix_micros("window_end") - F.unix_micros("window_start")
    return results.withColumns({name: F.try_divide(F.col(f"`{name}`"), length_us / 1e6) for name in rates})


def _read(name: str, text: str, operator: str) -> Aggregate:
    if not text.strip():
        raise BadOperator(operator, "aggregate", f"has {name!r}: {text!r}", hint='a text such as "count(*)"')
    if not name or name in RESULT_COLUMNS:
        raise BadOperator(
            operator,
            "aggregate",
            f"names a result {name!r}, which every window's result has already",
            hint="choose another name",
        )
    call = _CALL.fullmatch(text)
    arguments = _split(call.group(2)) if call else None
    if call is None or arguments is None or _is_sparks_own(call.group(1).lower(), arguments):
        return Aggregate(name=name, text=text, function="", arguments=())
    aggregate = Aggregate(name=name, text=text, function=call.group(1).lower(), arguments=arguments)
    folds = _FOLDS_OF_ROWS if arguments == ("*",) else _FOLDS
    if aggregate.has_fold() and (not arguments or aggregate.function not in folds):
        hint = (
            "it is completeness(*)"
            if aggregate.function == COMPLETENESS
            else "name a column, or * to count rows"
        )
        raise BadOperator(operator, "aggregate", f"has {name!r}: {text!r}", hint=hint)
    if aggregate.function == "percentile":
        _share(aggregate, operator)
    elif aggregate.function == "top":
        _results(aggregate, operator)
    return aggregate


RESULT_COLUMNS = ("window_start", "window_end", "pane", "revision", "op", "watermark")
"""What every window's results carry, besides the columns of `by` and the aggregates."""


def _split(inside: str) -> tuple[str, ...] | None:
    """The arguments of a call; None if the brackets in there are not those of one call."""
    depth, quote, parts, part, is_escaped = 0, "", [], "", False
    for character in inside:
        if quote:
            is_end = character == quote and not is_escaped
            is_escaped = character == "\\" and not is_escaped and quote != "`"
            quote = "" if is_end else quote
        elif character in "'\"`":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
            if depth < 0:
                return None
        elif character == "," and depth == 0:
            parts.append(part.strip())
            part = ""
            continue
        part += character
    if part.strip() or parts:
        parts.append(part.strip())
    return tuple(parts)


def _is_sparks_own(function: str, arguments: tuple[str, ...]) -> bool:
    """Calls of a name that there is a fold for, in a form that the fold can't do."""
    return (
        any(each.lower().startswith("distinct ") for each in arguments)
        or len(arguments) > _ARGUMENTS_MAX.get(function, 1)
        or (function == "percentile" and arguments[-1].lower().startswith("array("))
    )


def _count_max(aggregate: Aggregate, operator: str) -> int:
    if len(aggregate.arguments) < 2:
        return COLLECT_COUNT_MAX
    said = aggregate.arguments[1]
    if not said.isdigit() or int(said) < 1:
        raise BadOperator(operator, "aggregate", f"has {aggregate.text!r}", hint="such as collect(url, 100)")
    return int(said)


def _share(aggregate: Aggregate, operator: str) -> float:
    try:
        share = float(aggregate.arguments[1])
    except (IndexError, ValueError):
        share = -1.0
    if not 0 <= share <= 1:
        raise BadOperator(
            operator,
            "aggregate",
            f"has {aggregate.text!r}",
            hint="a share between 0 and 1, such as percentile(ms, 0.95)",
        )
    return share


def _results(aggregate: Aggregate, operator: str) -> int:
    said = aggregate.arguments[1] if len(aggregate.arguments) == 2 else ""
    if not said.isdigit() or not 1 <= int(said) <= TOP_RESULTS_MAX:
        raise BadOperator(
            operator,
            "aggregate",
            f"has {aggregate.text!r}",
            hint=f"how many of the most frequent, at most {TOP_RESULTS_MAX:,}, such as top(url, 10)",
        )
    return int(said)


def _number(aggregate: Aggregate, values: pa.DataType, operator: str) -> pa.DataType:
    if pa.types.is_integer(values) or pa.types.is_floating(values):
        return values
    raise BadOperator(
        operator,
        "aggregate",
        f"has {aggregate.text!r} of values that are {values}",
        hint=f'cast them: "{aggregate.function}(cast({aggregate.arguments[0]} as double))"',
    )


def _sum(aggregate: Aggregate, values: pa.DataType, operator: str) -> Fold:
    return SumFold(_number(aggregate, values, operator))


def _mean(aggregate: Aggregate, values: pa.DataType, operator: str) -> Fold:
    _number(aggregate, values, operator)
    return MeanFold()


def _deviation(aggregate: Aggregate, values: pa.DataType, operator: str) -> Fold:
    _number(aggregate, values, operator)
    return DeviationFold()


def _percentile(aggregate: Aggregate, values: pa.DataType, operator: str) -> Fold:
    if not pa.types.is_decimal(values):
        _number(aggregate, values, operator)
    return PercentileFold(_share(aggregate, operator))


def _top(aggregate: Aggregate, values: pa.DataType, operator: str) -> Fold:
    if pa.types.is_nested(values):
        raise BadOperator(
            operator,
            "aggregate",
            f"has {aggregate.text!r} of values that are {values}",
            hint=f'plain values, such as "top(to_json({aggregate.arguments[0]}), 10)"',
        )
    return TopFold(values, results=_results(aggregate, operator))


_FOLDS_OF_ROWS: Mapping[str, Callable[[], Fold]] = {
    "count": CountFold,
    "rate": CountFold,
    COMPLETENESS: CompletenessFold,
}
"""What can be said of `*`."""

_FOLDS: Mapping[str, Callable[[Aggregate, pa.DataType, str], Fold]] = {
    "count": lambda aggregate, values, operator: CountFold(),
    "sum": _sum,
    "min": lambda aggregate, values, operator: ExtremeFold(values, greatest=False),
    "max": lambda aggregate, values, operator: ExtremeFold(values, greatest=True),
    "avg": _mean,
    "mean": _mean,
    "stddev": _deviation,
    "stddev_samp": _deviation,
    "first": lambda aggregate, values, operator: EdgeFold(values, last=False),
    "last": lambda aggregate, values, operator: EdgeFold(values, last=True),
    "collect": lambda aggregate, values, operator: CollectFold(
        values, count_max=_count_max(aggregate, operator)
    ),
    "distinct": lambda aggregate, values, operator: DistinctFold(),
    "percentile": _percentile,
    "rate": lambda aggregate, values, operator: SumFold(pa.float64()),
    "top": _top,
}
