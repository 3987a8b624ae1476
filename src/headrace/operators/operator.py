"""The base of operators: an immutable description that validates its fields and can be applied to a DataFrame.

Also the common functions to read a description: durations, columns, and the event-time column.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from difflib import get_close_matches
from functools import reduce
from operator import or_
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeGuard, cast, get_args

from headrace.durations import BadDuration, parse_duration_us
from headrace.errors import HeadraceError
from headrace.plan_names import EVENT_TIME, WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NODE = re.compile(r"^(?P<indent>[ :|+-]*)~?(?P<name>\w+)", re.MULTILINE)
"""A line of a plan as text. Spark marks nodes of streams with ~."""

DURATION_US_MAX = 100 * 366 * 86_400_000_000
"""A hundred years. A longer duration is a mistake, and sums of times might not fit in 64 bits."""

Duration = str | timedelta
"""A text such as `"10 seconds"`, `"90s"` or `"1 hour 30 minutes"`, or a timedelta."""


class BadOperator(HeadraceError):
    """An invalid operator. The message names the invalid field, the problem and the remedy."""

    def __init__(self, operator: str, field: str, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{operator}: {field} {problem}", hint=hint)
        self.operator = operator
        self.field = field


class Operator(abc.ABC):
    """A function from DataFrame to DataFrame: `rows.transform(operator)`, for bounded and streaming DataFrames."""

    __slots__ = ()

    @abc.abstractmethod
    def __call__(self, rows: DataFrame) -> DataFrame: ...


def duration_us(duration: Duration, *, operator: str, field: str, zero: bool = False) -> int:
    """The duration in microseconds; it must be positive, or 0 with `zero`."""
    if isinstance(duration, timedelta):
        amount_us = duration // timedelta(microseconds=1)
    else:
        amount_us = _parse_us(duration, operator=operator, field=field)
    if amount_us < 0 or (amount_us == 0 and not zero):
        raise BadOperator(
            operator,
            field,
            f"is {duration!r}, but must be positive",
            hint='set a duration such as "10 seconds"',
        )
    if amount_us > DURATION_US_MAX:
        raise BadOperator(operator, field, f"is {duration!r}, more than a hundred years", hint="shorten it")
    return amount_us


def _parse_us(text: object, *, operator: str, field: str) -> int:
    if not isinstance(text, str):
        raise BadOperator(
            operator,
            field,
            f"is {text!r}, which is not a duration",
            hint='set a text such as "10 seconds", or a timedelta',
        )
    try:
        return parse_duration_us(text)
    except BadDuration as error:
        raise BadOperator(operator, field, f"is invalid: {error.message}", hint=error.hint) from error


def column(name: str) -> Column:
    """The column with this exact name, which may have dots."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def any_null(columns: Iterable[str]) -> Column:
    """Whether one of the columns is null; there must be at least one."""
    return reduce(or_, (column(name).isNull() for name in columns))


def time_us(name: str) -> Column:
    """The time in a column, in microseconds since the epoch."""
    from pyspark.sql import functions as F

    return F.unix_micros(column(name).cast("timestamp"))


def interval_text(amount_us: int) -> str:
    """The duration as text for Spark's functions."""
    return f"{amount_us} microseconds"


def canonical_text(setting: object) -> str:
    """The value of a field as text, equal for equal durations: "60 seconds" and "1 minute" are the same."""
    if isinstance(setting, str | timedelta):
        try:
            return str(timedelta(microseconds=duration_us(setting, operator="", field="", zero=True)))
        except BadOperator:
            pass
    return repr(setting)


def require_one_of(given: object, choices: Any, *, operator: str, field: str) -> None:
    """Raise if the value of a field is not one of the choices of its `Literal` type."""
    allowed = get_args(choices)
    if not isinstance(given, str | None) or given not in allowed:
        raise BadOperator(
            operator, field, f"is {given!r}", hint=f"use one of {', '.join(map(repr, allowed))}"
        )


def require_kind(
    given: object, kinds: type | UnionType, *, operator: str, field: str, hint: str, problem: str = ""
) -> None:
    """Raise if the value of a field has another type. A bool is not a number."""
    is_bool = isinstance(given, bool) and bool not in (get_args(kinds) or (kinds,))
    if is_bool or not isinstance(given, kinds):
        raise BadOperator(operator, field, f"is {given!r}{problem}", hint=hint)


def require_text(given: object, *, operator: str, field: str, hint: str) -> None:
    """Raise if the value of a field is not a text, or empty."""
    require_kind(given, str, operator=operator, field=field, hint=hint, problem=", which is not a text")
    if not given:
        raise BadOperator(operator, field, "is empty", hint=hint)


def is_column(given: object) -> TypeGuard[Column]:
    """Whether it is a column of Spark, which is not imported for this."""
    return hasattr(given, "_jc")


def column_name(given: object, *, operator: str, field: str) -> str:
    """The name of a column, which is a text or `F.col(...)`."""
    found = _referenced(given) if is_column(given) else given
    if not isinstance(found, str) or not found:
        raise BadOperator(
            operator,
            field,
            f"is {given!r}, which is not a column name",
            hint=f'name a column: {field}="name"; for an expression, add a column first with withColumn',
        )
    return found


def _referenced(expression: Column) -> str | None:
    """The name of the column that an expression only refers to."""
    parsed = expression_of(expression)
    if parsed.getClass().getSimpleName() != "UnresolvedAttribute" or parsed.nameParts().size() != 1:
        return None
    return str(parsed.nameParts().apply(0))


def expression_of(column: Column) -> Any:
    """The expression of a column, as an object of the JVM."""
    from pyspark.sql import SparkSession

    return SparkSession.active()._jsparkSession.expression(column._jc)


def names(columns: object, *, operator: str, field: str) -> tuple[str, ...]:
    """The names of one column or several columns."""
    several = isinstance(columns, Sequence) and not isinstance(columns, str)
    given = tuple(
        column_name(each, operator=operator, field=field)
        for each in (cast(Sequence[object], columns) if several else (columns,))
    )
    if len(set(given)) < len(given):
        raise BadOperator(operator, field, "names a column twice", hint="remove one of them")
    return given


def require_columns(rows: DataFrame, wanted: Iterable[str], *, operator: str, field: str) -> None:
    for name in wanted:
        if name not in rows.columns:
            near = get_close_matches(name, rows.columns, n=1)
            raise BadOperator(
                operator,
                field,
                f"names column {name!r}, which does not exist",
                hint=f"did you mean {near[0]!r}?" if near else f"the columns are {', '.join(rows.columns)}",
            )


def time_name(given: object, *, operator: str, field: str = "time") -> str | None:
    """The name of an event-time column; None if the source declares it."""
    return None if given is None else column_name(given, operator=operator, field=field)


def event_time_column(rows: DataFrame, named: str | None, *, operator: str, field: str = "time") -> str:
    """The event-time column: the column that the operator names, or else the one that the source declared."""
    if named is None:
        declared = [each.name for each in rows.schema.fields if each.metadata.get(EVENT_TIME)]
        declared = declared or [each.name for each in rows.schema.fields if WATERMARK_DELAY in each.metadata]
        if len(declared) != 1:
            problem = "is not set, and no column is declared as the event time"
            if declared:
                problem = f"is not set, and several columns are declared: {', '.join(declared)}"
            raise BadOperator(
                operator,
                field,
                problem,
                hint=f'set {field}="the column", or event_time="the column" in read_topic',
            )
        named = declared[0]
    require_timestamp(rows, named, operator=operator, field=field)
    return named


def require_timestamp(rows: DataFrame, name: str, *, operator: str, field: str) -> None:
    from pyspark.sql.types import TimestampNTZType, TimestampType

    require_columns(rows, [name], operator=operator, field=field)
    kind = rows.schema[name].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        raise BadOperator(
            operator,
            field,
            f"names column {name!r}, which is {kind.simpleString()}, not a timestamp",
            hint=f'cast it: rows.withColumn("{name}", F.col("{name}").cast("timestamp"))',
        )


def require_watermark(rows: DataFrame, time: str, *, operator: str, field: str = "time") -> None:
    """Raise if a stream has no watermark on the column, or one behind another. Bounded rows need none."""
    if not rows.isStreaming:
        return
    require_one_watermark(rows, operator=operator, field=field)
    declared = [each.name for each in rows.schema if WATERMARK_DELAY in each.metadata]
    if declared and time not in declared:
        raise BadOperator(
            operator,
            field,
            f"is column {time!r}, but the watermark of the stream is on column {declared[0]!r}",
            hint=f'set {field}="{declared[0]}"',
        )
    if not declared:
        raise BadOperator(
            operator,
            field,
            f"is column {time!r}, which has no watermark, so no result would ever be complete",
            hint=f'add one: read_topic(…, watermark="10 seconds"), or rows.withWatermark("{time}", "10 seconds")',
        )


def require_one_watermark(rows: DataFrame, *, operator: str, field: str) -> None:
    """Raise if a watermark is declared behind another one: Spark takes the smaller one for the whole query. If the rows
    of one wait for the other, neither ever advances."""
    found = second_watermark(rows._jdf.queryExecution().analyzed().treeString())
    if found:
        raise BadOperator(
            operator,
            field,
            "has a watermark behind another watermark, so that neither would advance",
            hint="remove the second withWatermark(…): rows behind an operator have the watermark of their source",
        )


def second_watermark(plan: str) -> bool:
    """Whether a node of the plan declares a watermark above another such node."""
    above: list[int] = []
    for node in _NODE.finditer(plan):
        depth = len(node["indent"])
        above = [each for each in above if each < depth]
        if node["name"] == "EventTimeWatermark":
            if above:
                return True
            above.append(depth)
    return False
