"""The base of operators: an immutable description that validates its fields and can be applied to a DataFrame.

Also the common functions to read a description: durations, columns, and the event-time column.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

from headrace.durations import BadDuration, parse_duration_us
from headrace.errors import HeadraceError
from headrace.plan_names import EVENT_TIME, WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    if given not in allowed:
        raise BadOperator(
            operator, field, f"is {given!r}", hint=f"use one of {', '.join(map(repr, allowed))}"
        )


def names(columns: str | Sequence[str], *, operator: str, field: str) -> tuple[str, ...]:
    """The names of one column or several columns."""
    given = (columns,) if isinstance(columns, str) else tuple(columns)
    for each in given:
        if not each:
            raise BadOperator(
                operator, field, f"has {each!r}, which is not a column name", hint="set names of columns"
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


def event_time_column(rows: DataFrame, named: str | None, *, operator: str, field: str = "time") -> str:
    """The event-time column: the column that the operator names, or else the one that the source declared."""
    from pyspark.sql.types import TimestampNTZType, TimestampType

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
    require_columns(rows, [named], operator=operator, field=field)
    kind = rows.schema[named].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        raise BadOperator(
            operator,
            field,
            f"names column {named!r}, which is {kind.simpleString()}, not a timestamp",
            hint=f'cast it: rows.withColumn("{named}", F.col("{named}").cast("timestamp"))',
        )
    return named


def require_watermark(rows: DataFrame, time: str, *, operator: str, field: str = "time") -> None:
    """Raise if a stream has no watermark on the column. Bounded rows need none."""
    if rows.isStreaming and WATERMARK_DELAY not in rows.schema[time].metadata:
        raise BadOperator(
            operator,
            field,
            f"is column {time!r}, which has no watermark, so no result would ever be complete",
            hint=f'add one: read_topic(…, watermark="10 seconds"), or rows.withWatermark("{time}", "10 seconds")',
        )
