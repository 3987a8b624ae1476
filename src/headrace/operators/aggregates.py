"""Aggregates as text, and their translation to a Spark expression or to a fold.

    {"n": "count(*)", "slowest": "max(ms)", "bytes": "sum(length(body))"}

The argument is any Spark expression on the row. In a native window, the aggregate may also be any aggregate of Spark.
The names below have the same meaning on Spark and in the core.

Sketches (`distinct`, `percentile`, `top`) always run in the core. Spark's sketches return other numbers, some of which
depend on the order of rows, and its exact aggregates store every value. `completeness(*)` depends on the arrival of
rows, which native windows do not know.
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
"""The number of values that `collect(x)` stores per window by default, instead of `collect(x, n)`: it bounds the state.
"""

SKETCHES = ("distinct", "percentile", "top")
COMPLETENESS = "completeness"

_ARGUMENTS_MAX = {"collect": 2, "percentile": 2, "top": 2}
_CALL = re.compile(r"\s*([a-z_]+)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)


class Aggregate(Struct, frozen=True, kw_only=True):
    """One result column."""

    name: str
    text: str
    function: str
    """The function in lower case; empty if the text is not a simple call, so that only Spark can evaluate it."""
    arguments: tuple[str, ...]

    @property
    def input(self) -> str | None:
        """The aggregated expression; None for `count(*)`."""
        if self.arguments[:1] == ("*",):
            return None
        inside = self.arguments[0]
        if self.function == "distinct":
            # Spark hashes values of any type. Its hash of null is not null, so null is excluded.
            return f"if(({inside}) is null, null, xxhash64({inside}))"
        return f"cast(({inside}) as double)" if self.function == "rate" else inside

    def has_fold(self) -> bool:
        return self.function in _FOLDS or self.function in _FOLDS_OF_ROWS

    @property
    def is_for_core(self) -> bool:
        return self.function in (*SKETCHES, COMPLETENESS)

    def fold(self, values: pa.DataType | None, *, operator: str) -> Fold:
        """The fold for values of this type; None without an `input`."""
        if values is None:
            return _FOLDS_OF_ROWS[self.function]()
        return _FOLDS[self.function](self, values, operator)


def read_aggregates(texts: Mapping[str, str], *, operator: str) -> tuple[Aggregate, ...]:
    if not texts:
        raise BadOperator(
            operator, "aggregate", "is empty", hint='name a result, such as aggregate={"n": "count(*)"}'
        )
    return tuple(_read(name, text, operator) for name, text in texts.items())


def are_for_spark(aggregates: tuple[Aggregate, ...], *, operator: str) -> bool:
    """Whether a native window can compute these aggregates; not if only the core supports one of them."""
    own = [each for each in aggregates if not each.has_fold()]
    for_core = [each for each in aggregates if each.is_for_core]
    if own and for_core:
        raise BadOperator(
            operator,
            "aggregate",
            f"has {for_core[0].text!r}, which only Headrace supports, and {own[0].text!r}, which only Spark supports",
            hint="use two windows, or Spark's approx_percentile, approx_count_distinct or approx_top_k",
        )
    return not for_core


def require_folds(aggregates: tuple[Aggregate, ...], *, operator: str, why: str) -> None:
    for each in aggregates:
        if not each.has_fold():
            raise BadOperator(
                operator,
                "aggregate",
                f"has {each.name!r}: {each.text!r}, which is not supported {why}",
                hint=f"use one of {', '.join(sorted({*_FOLDS, *_FOLDS_OF_ROWS}))}, of any expression on the row",
            )


def native_column(aggregate: Aggregate, time: str) -> Column:
    """The aggregate as a Spark expression with the meaning of the fold."""
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
    """The results with the sums and counts of rates divided by the length of their window in seconds."""
    from pyspark.sql import functions as F

    rates = [each.name for each in aggregates if each.function == "rate"]
    if not rates:
        return results
    length_us = F.unix_micros("window_end") - F.unix_micros("window_start")
    return results.withColumns({name: F.try_divide(F.col(f"`{name}`"), length_us / 1e6) for name in rates})


def _read(name: str, text: str, operator: str) -> Aggregate:
    if not text.strip():
        raise BadOperator(
            operator, "aggregate", f"has {name!r}: {text!r}", hint='set a text such as "count(*)"'
        )
    if not name or name in RESULT_COLUMNS:
        raise BadOperator(
            operator,
            "aggregate",
            f"names a result {name!r}, which is a column of every result of a window",
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
            "write completeness(*)"
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
"""The columns of every window's results, besides the columns of `by` and the aggregates."""


def _split(inside: str) -> tuple[str, ...] | None:
    """The arguments of a call; None if the text is not the inside of a single call."""
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
    """Whether a call has the name of a fold, but a form that only Spark supports."""
    return (
        any(each.lower().startswith("distinct ") for each in arguments)
        or len(arguments) > _ARGUMENTS_MAX.get(function, 1)
        or (function == "percentile" and arguments[-1].lower().startswith("array("))
    )


def _count_max(aggregate: Aggregate, operator: str) -> int:
    if len(aggregate.arguments) < 2:
        return COLLECT_COUNT_MAX
    count = aggregate.arguments[1]
    if not count.isdigit() or int(count) < 1:
        raise BadOperator(
            operator, "aggregate", f"has {aggregate.text!r}", hint="set a number, such as collect(url, 100)"
        )
    return int(count)


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
            hint="set a fraction from 0 to 1, such as percentile(ms, 0.95)",
        )
    return share


def _results(aggregate: Aggregate, operator: str) -> int:
    count = aggregate.arguments[1] if len(aggregate.arguments) == 2 else ""
    if not count.isdigit() or not 1 <= int(count) <= TOP_RESULTS_MAX:
        raise BadOperator(
            operator,
            "aggregate",
            f"has {aggregate.text!r}",
            hint=f"set the number of values, at most {TOP_RESULTS_MAX:,}, such as top(url, 10)",
        )
    return int(count)


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
            hint=f'convert them to simple values: "top(to_json({aggregate.arguments[0]}), 10)"',
        )
    return TopFold(values, results=_results(aggregate, operator))


_FOLDS_OF_ROWS: Mapping[str, Callable[[], Fold]] = {
    "count": CountFold,
    "rate": CountFold,
    COMPLETENESS: CompletenessFold,
}
"""The aggregates of `*`."""

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
