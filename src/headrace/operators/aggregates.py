"""Aggregates as text, and their translation to a Spark expression or to a fold.

    {"n": "count(*)", "slowest": "max(ms)", "bytes": "sum(length(body))"}

The argument is any Spark expression on the row, and `filter (where …)` limits the rows. In a native window, the
aggregate may also be any aggregate of Spark. The names below have the same meaning on Spark and in the core.

A result may also be a formula, an expression on several aggregates: `sum(ms) / count(*)`. Its parts are computed as
aggregates, and Spark evaluates the formula on their results.

Sketches (`distinct`, `percentile`, `top`, and those of `portable_sketches.py`) always run in the core. Spark's sketches
return other numbers, some of which depend on the order of rows, and its exact aggregates store every value.
`completeness(*)` depends on the arrival of rows, which native windows do not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from msgspec import Struct

from headrace.operators.folds import (
    CollectFold,
    CompletenessFold,
    CountFold,
    DecimalMeanFold,
    DecimalSumFold,
    DeviationFold,
    EdgeFold,
    ExtremeFold,
    Fold,
    MeanFold,
    SumFold,
)
from headrace.operators.operator import BadOperator, column
from headrace.operators.ordering import is_ordered
from headrace.operators.portable_sketches import (
    CountMinFold,
    DigestFold,
    FrequentFold,
    HllFold,
    ThetaFold,
)
from headrace.operators.sketches import TOP_RESULTS_MAX, DistinctFold, PercentileFold, TopFold

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLLECT_COUNT_MAX = 1_000
"""The number of values that `collect(x)` stores per window by default, instead of `collect(x, n)`: it bounds the state.
"""

SKETCHES = (
    "distinct",
    "percentile",
    "top",
    "theta_sketch",
    "tdigest_sketch",
    "frequent_sketch",
    "hll_sketch",
    "count_min_sketch",
)
COMPLETENESS = "completeness"
COUNT_DISTINCT = "count_distinct"
"""The function of `count(distinct x)`, which only Spark and `GroupChanges` support."""

_PART = "__"
"""The prefix of the names of the parts of formulas."""

_ARGUMENTS_MAX = {"collect": 2, "percentile": 2, "top": 2}
_TOKEN = re.compile(
    r"""'(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*" | `[^`]*` | (?<![\w.])(?P<name>[a-z_]\w*) | [()]""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
"""What matters in an expression: quoted texts and names, functions, and parentheses."""
_OPEN = re.compile(r"\s*\(")
_FILTER = re.compile(r"\s*filter\s*\(\s*where\b", re.IGNORECASE)
_CALL = re.compile(r"\s*([a-z_]+)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)


class Aggregate(Struct, frozen=True, kw_only=True):
    """One result column."""

    name: str
    text: str
    function: str
    """The function in lower case; empty if the text is not a simple call, so that only Spark can evaluate it."""
    arguments: tuple[str, ...]
    condition: str = ""
    """The condition of `filter (where …)`; empty for all rows."""

    @property
    def input(self) -> str | None:
        """The aggregated expression, null for rows that the filter excludes; None for `count(*)`."""
        if not self.condition:
            return self._argument
        return f"if({self.condition}, {self._argument or 1}, null)"

    @property
    def _argument(self) -> str | None:
        if self.arguments[:1] == ("*",):
            return None
        inside = self.arguments[0]
        if self.function == COUNT_DISTINCT and len(self.arguments) > 1:
            is_null = " or ".join(f"({each}) is null" for each in self.arguments)
            return f"if({is_null}, null, struct({', '.join(self.arguments)}))"
        if self.function == "frequent_sketch":
            return f"cast(({inside}) as string)"
        if self.function in ("distinct", "theta_sketch", "hll_sketch"):
            # Spark hashes values of any type. Its hash of null is not null, so null is excluded.
            return f"if(({inside}) is null, null, xxhash64({inside}))"
        return f"cast(({inside}) as double)" if self.function == "rate" else inside

    @property
    def shown(self) -> str:
        """The aggregate in messages. The part of a formula has no name that a user knows."""
        return repr(self.text) if self.name.startswith(_PART) else f"{self.name!r}: {self.text!r}"

    def has_fold(self) -> bool:
        return self.function in _FOLDS or self.function in _FOLDS_OF_ROWS

    @property
    def is_for_core(self) -> bool:
        return self.function in (*SKETCHES, COMPLETENESS)

    def fold(self, values: pa.DataType | None, *, operator: str, is_strict: bool = True) -> Fold:
        """The fold for values of this type; None without an `input`. If strict, decimals that overflow are an error."""
        if values is None or self.arguments == ("*",):
            return _FOLDS_OF_ROWS[self.function]()
        is_number = pa.types.is_integer(values) or pa.types.is_floating(values)
        is_decimal = pa.types.is_decimal(values)
        if self.function in _OF_NUMBERS and not (is_number or is_decimal):
            raise BadOperator(
                operator,
                "aggregate",
                f"has {self.text!r} of values that are {values}",
                hint=f'cast them: "{self.function}(cast({self.arguments[0]} as double))"',
            )
        if self.function in _OF_ORDERED:
            require_order(self, values, operator=operator)
        if is_decimal and self.function in _OF_DECIMALS:
            return _OF_DECIMALS[self.function](values, is_strict=is_strict)
        return _FOLDS[self.function](self, values, operator)


def named_folds(
    rows: DataFrame, aggregates: tuple[Aggregate, ...], kinds: Mapping[int, pa.DataType], *, operator: str
) -> list[tuple[str, Fold]]:
    """The fold of each aggregate with the name of its result. `kinds` has the types of the inputs by number."""
    return [
        (each.name, each.fold(kinds.get(number), operator=operator, is_strict=is_ansi(rows)))
        for number, each in enumerate(aggregates)
    ]


def is_ansi(rows: DataFrame) -> bool:
    """Whether Spark's ANSI mode makes an overflow an error."""
    return rows.sparkSession.conf.get("spark.sql.ansi.enabled") == "true"


def require_order(aggregate: Aggregate, values: pa.DataType, *, operator: str) -> None:
    """Raise if values of this type have no order."""
    if not is_ordered(values):
        raise BadOperator(
            operator,
            "aggregate",
            f"has {aggregate.text!r} of values that are {values}, and maps have no order",
            hint=f"convert a map to an array: map_entries({aggregate.arguments[0]})",
        )


class Formula(Struct, frozen=True, kw_only=True):
    """A result column that Spark computes from the results of aggregates."""

    name: str
    text: str
    expression: str
    """The text with the names of the parts instead of their calls."""
    parts: tuple[Aggregate, ...]

    @property
    def is_for_spark(self) -> bool:
        """Whether Spark gives all parts the meaning that they have here, so that it can compute the text itself."""
        return all(each.function in _SAME_ON_SPARK for each in self.parts)


Result = Aggregate | Formula


def aggregates_of(results: Iterable[Result]) -> tuple[Aggregate, ...]:
    """The aggregates, including the parts of formulas."""
    return tuple(part for each in results for part in (each.parts if isinstance(each, Formula) else (each,)))


def read_results(texts: Mapping[str, str], *, operator: str) -> tuple[Result, ...]:
    if not texts:
        raise BadOperator(
            operator, "aggregate", "is empty", hint='name a result, such as aggregate={"n": "count(*)"}'
        )
    return tuple(_read(name, text, operator) for name, text in texts.items())


def inputs_of(aggregates: tuple[Aggregate, ...], loss: str | None = None) -> dict[int, str]:
    """The aggregated expressions, by the number of the aggregate. `loss` is that of completeness, if rows have one."""
    inputs = ((loss if each.function == COMPLETENESS else each.input) for each in aggregates)
    return {number: given for number, given in enumerate(inputs) if given is not None}


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
                f"has {each.shown}, which is not supported {why}",
                hint=f"use one of {', '.join(sorted({*_FOLDS, *_FOLDS_OF_ROWS}))}, of any expression on the row",
            )


def native_column(aggregate: Aggregate, time: str) -> Column:
    """The aggregate as a Spark expression with the meaning of the fold."""
    from pyspark.sql import functions as F

    function, text = aggregate.function, aggregate.text
    if function in ("first", "last", "collect"):
        assert aggregate.input is not None
        inside = F.expr(aggregate.input)
        timed = F.when(inside.isNotNull(), F.struct(F.col(time).alias("time"), inside.alias("value")))
        if function == "collect":
            sorted_values = F.transform(F.array_sort(F.collect_list(timed)), lambda each: each["value"])
            return F.slice(sorted_values, 1, _count_max(aggregate, "")).alias(aggregate.name)
        return (F.min(timed) if function == "first" else F.max(timed))["value"].alias(aggregate.name)
    if function == "rate":
        rows = "count(*)" if aggregate.input is None else f"count({aggregate.input})"
        text = rows if aggregate.arguments == ("*",) else f"sum({aggregate.input})"
    elif function == "sum" and not aggregate.condition:
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


def with_formulas(results: DataFrame, wanted: tuple[Result, ...], *, operator: str) -> DataFrame:
    """The results with formulas in the place of their parts. Spark may have computed a formula already."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    formulas = [
        each for each in wanted if isinstance(each, Formula) and each.parts[0].name in results.columns
    ]
    if not formulas:
        return results
    first = {each.parts[0].name: each for each in formulas}
    others = {part.name for each in formulas for part in each.parts[1:]}
    for each in formulas:
        try:
            results.select(F.expr(each.expression))
        except AnalysisException as error:
            raise BadOperator(
                operator,
                "aggregate",
                f"has {each.name!r}: {each.text!r}, which Spark can't evaluate",
                hint=str(error).splitlines()[0][:300],
            ) from error
    return results.select(
        *(
            F.expr(first[name].expression).alias(first[name].name) if name in first else column(name)
            for name in results.columns
            if name not in others
        )
    )


def _read(name: str, text: str, operator: str) -> Result:
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
    calls = _calls(text)
    if [each.text for each in calls] == [text.strip()]:
        return _read_call(name, calls[0], operator)
    parts = tuple(_read_call(f"{_PART}{name}_{number}", call, operator) for number, call in enumerate(calls))
    if not all(part.function for part in parts) or not parts:
        return Aggregate(name=name, text=text, function="", arguments=())
    expression = text
    for part, call in reversed(tuple(zip(parts, calls, strict=True))):
        # An expression without a name, as the call is: `struct(max(x))` does not name its field.
        replaced = f"coalesce(`{part.name.replace('`', '``')}`)"
        expression = expression[: call.start] + replaced + expression[call.start + len(call.text) :]
    return Formula(name=name, text=text, expression=expression, parts=parts)


def _read_call(name: str, given: _Call, operator: str) -> Aggregate:
    text = given.text
    call = _CALL.fullmatch(given.head)
    arguments = _split(call.group(2)) if call else None
    if call is not None and arguments and (distinct := _distinct(call.group(1), arguments)):
        return Aggregate(
            name=name, text=text, function=COUNT_DISTINCT, arguments=distinct, condition=given.condition
        )
    if call is None or arguments is None or _is_sparks_own(call.group(1).lower(), arguments):
        return Aggregate(name=name, text=text, function="", arguments=())
    aggregate = Aggregate(
        name=name,
        text=text,
        function=call.group(1).lower(),
        arguments=arguments,
        condition=given.condition,
    )
    folds = _FOLDS_OF_ROWS if arguments == ("*",) else _FOLDS
    if not arguments or aggregate.function not in folds:
        hint = (
            "write completeness(*)"
            if aggregate.function == COMPLETENESS
            else "name a column, or * to count rows"
        )
        raise BadOperator(operator, "aggregate", f"has {aggregate.shown}", hint=hint)
    if aggregate.function == COMPLETENESS and aggregate.condition:
        raise BadOperator(
            operator, "aggregate", f"has {text!r}, which is about all rows", hint="remove the filter"
        )
    if aggregate.function == "percentile":
        _share(aggregate, operator)
    elif aggregate.function == "top":
        _results(aggregate, operator)
    return aggregate


RESULT_COLUMNS = ("window_start", "window_end", "pane", "revision", "op", "watermark")
"""The columns of every window's results, besides the columns of `by` and the aggregates."""


class _Call(NamedTuple):
    """The call of an aggregate in a text."""

    start: int
    text: str
    head: str
    """The call without its filter."""
    condition: str


def _calls(text: str) -> list[_Call]:
    """The calls of aggregates in a text that are not inside another one."""
    found, at = [], 0
    while token := _TOKEN.search(text, at):
        at = token.end()
        if token.group("name") is None or token.group("name").lower() not in {*_FOLDS, *_FOLDS_OF_ROWS}:
            continue
        opened = _OPEN.match(text, at)
        end = _closed(text, opened.end()) if opened else None
        if end is None:
            continue
        head, condition = text[token.start() : end], ""
        filtered = _FILTER.match(text, end)
        if filtered and (filter_end := _closed(text, filtered.end())):
            condition, end = text[filtered.end() : filter_end - 1].strip(), filter_end
        found.append(_Call(token.start(), text[token.start() : end], head, condition))
        at = end
    return found


def _closed(text: str, at: int) -> int | None:
    """The position behind the parenthesis that closes the one before `at`; None if there is none."""
    depth = 1
    for token in _TOKEN.finditer(text, at):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        if depth == 0:
            return token.end()
    return None


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


def _distinct(function: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments of `count(distinct …)`; empty for another call."""
    keyword, *first = arguments[0].split(maxsplit=1)
    if function.lower() != "count" or keyword.lower() != "distinct" or not first:
        return ()
    return first[0], *arguments[1:]


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


def _top(aggregate: Aggregate, values: pa.DataType, operator: str) -> Fold:
    if pa.types.is_nested(values):
        raise BadOperator(
            operator,
            "aggregate",
            f"has {aggregate.text!r} of values that are {values}",
            hint=f'convert them to simple values: "top(to_json({aggregate.arguments[0]}), 10)"',
        )
    return TopFold(values, results=_results(aggregate, operator))


def _count_min(aggregate: Aggregate, values: pa.DataType, operator: str) -> Fold:
    if not (pa.types.is_integer(values) or pa.types.is_string(values)):
        raise BadOperator(
            operator,
            "aggregate",
            f"has {aggregate.text!r} of values that are {values}, not integers or texts",
            hint=f'cast them: "count_min_sketch(cast({aggregate.arguments[0]} as string))"',
        )
    return CountMinFold()


_OF_ORDERED = ("collect", "first", "last", "max", "min")
"""The aggregates of values that have an order; by value, or among values of the same time."""

_OF_NUMBERS = ("avg", "mean", "percentile", "stddev", "stddev_samp", "sum", "tdigest_sketch")

_SAME_ON_SPARK = ("avg", "count", COUNT_DISTINCT, "max", "mean", "min", "stddev", "stddev_samp", "sum")
"""The aggregates that Spark computes with the same meaning under the same name."""

_OF_DECIMALS = {"avg": DecimalMeanFold, "mean": DecimalMeanFold, "sum": DecimalSumFold}

_FOLDS_OF_ROWS: Mapping[str, Callable[[], Fold]] = {
    "count": CountFold,
    "rate": CountFold,
    COMPLETENESS: CompletenessFold,
}
"""The aggregates of `*`."""

_FOLDS: Mapping[str, Callable[[Aggregate, pa.DataType, str], Fold]] = {
    "count": lambda aggregate, values, operator: CountFold(),
    "sum": lambda aggregate, values, operator: SumFold(values),
    "min": lambda aggregate, values, operator: ExtremeFold(values, greatest=False),
    "max": lambda aggregate, values, operator: ExtremeFold(values, greatest=True),
    "avg": lambda aggregate, values, operator: MeanFold(),
    "mean": lambda aggregate, values, operator: MeanFold(),
    "stddev": lambda aggregate, values, operator: DeviationFold(),
    "stddev_samp": lambda aggregate, values, operator: DeviationFold(),
    "first": lambda aggregate, values, operator: EdgeFold(values, last=False),
    "last": lambda aggregate, values, operator: EdgeFold(values, last=True),
    "collect": lambda aggregate, values, operator: CollectFold(
        values, count_max=_count_max(aggregate, operator)
    ),
    "distinct": lambda aggregate, values, operator: DistinctFold(),
    "percentile": lambda aggregate, values, operator: PercentileFold(_share(aggregate, operator)),
    "rate": lambda aggregate, values, operator: SumFold(pa.float64()),
    "top": _top,
    "theta_sketch": lambda aggregate, values, operator: ThetaFold(),
    "tdigest_sketch": lambda aggregate, values, operator: DigestFold(),
    "frequent_sketch": lambda aggregate, values, operator: FrequentFold(),
    "hll_sketch": lambda aggregate, values, operator: HllFold(),
    "count_min_sketch": _count_min,
}
