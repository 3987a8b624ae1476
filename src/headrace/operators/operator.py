"""What every operator is: a frozen description that checks itself, callable on a DataFrame.

Also what they all need to read a description: durations, columns, and the column that holds the event time.
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
"""A hundred years: beyond it, a duration is a slip of the pen, and sums of times would not fit in 64 bits for long."""

Duration = str | timedelta
"""A text such as `"10 seconds"`, `"90s"` or `"1 hour 30 minutes"`, or a timedelta."""


class BadOperator(HeadraceError):
    """An operator that cannot be: names the field that is wrong, and what to do about it."""

    def __init__(self, operator: str, field: str, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{operator}: {field} {problem}", hint=hint)
        self.operator = operator
        self.field = field


class Operator(abc.ABC):
    """DataFrame in, DataFrame out: `rows.transform(operator)`. Bounded and streaming DataFrames alike."""

    __slots__ = ()

    @abc.abstractmethod
    def __call__(self, rows: DataFrame) -> DataFrame: ...


def duration_us(said: Duration, *, operator: str, field: str, zero: bool = False) -> int:
    """Microseconds; more than none, unless `zero` is allowed."""
    if isinstance(said, timedelta):
        amount_us = said // timedelta(microseconds=1)
    else:
        amount_us = _parse_us(said, operator=operator, field=field)
    if amount_us < 0 or (amount_us == 0 and not zero):
        raise BadOperator(
            operator, field, f"is {said!r}, and must be longer than nothing", hint='such as "10 seconds"'
        )
    if amount_us > DURATION_US_MAX:
        raise BadOperator(operator, field, f"is {said!r}, more than a hundred years", hint="shorten it")
    return amount_us


def _parse_us(text: object, *, operator: str, field: str) -> int:
    if not isinstance(text, str):
        raise BadOperator(
            operator,
            field,
            f"is {text!r}, which is no duration",
            hint='write "10 seconds", or give a timedelta',
        )
    try:
        return parse_duration_us(text)
    except BadDuration as error:
        raise BadOperator(operator, field, f"is wrong: {error.message}", hint=error.hint) from error


def column(name: str) -> Column:
    """By its name as it is: dots in it are no path."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def time_us(name: str) -> Column:
    """The time in a column, in microseconds since the epoch."""
    from pyspark.sql import functions as F

    return F.unix_micros(column(name).cast("timestamp"))


def interval_text(amount_us: int) -> str:
    """As Spark's own functions read it."""
    return f"{amount_us} microseconds"


def plainly(said: object) -> str:
    """A field's value in one way of saying it: "60 seconds" and "1 minute" are the same."""
    if isinstance(said, str | timedelta):
        try:
            return str(timedelta(microseconds=duration_us(said, operator="", field="", zero=True)))
        except BadOperator:
            pass
    return repr(said)


def require_one_of(given: object, choices: Any, *, operator: str, field: str) -> None:
    """Raise unless the value of a field is one of its type's, a `Literal`."""
    allowed = get_args(choices)
    if given not in allowed:
        raise BadOperator(operator, field, f"is {given!r}", hint=f"one of {', '.join(map(repr, allowed))}")


def names(said: str | Sequence[str], *, operator: str, field: str) -> tuple[str, ...]:
    """Column names: one, or several."""
    given = (said,) if isinstance(said, str) else tuple(said)
    for each in given:
        if not each:
            raise BadOperator(
                operator, field, f"has {each!r}, which is no column name", hint="give names as texts"
            )
    if len(set(given)) < len(given):
        raise BadOperator(operator, field, "names a column twice", hint="once is enough")
    return given


def require_columns(rows: DataFrame, wanted: Iterable[str], *, operator: str, field: str) -> None:
    for name in wanted:
        if name not in rows.columns:
            near = get_close_matches(name, rows.columns, n=1)
            raise BadOperator(
                operator,
                field,
                f"names column {name!r}, which is not there",
                hint=f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(rows.columns)}",
            )


def event_time_column(rows: DataFrame, said: str | None, *, operator: str, field: str = "time") -> str:
    """The column that the operator names, or else the one that the source declared."""
    from pyspark.sql.types import TimestampNTZType, TimestampType

    if said is None:
        declared = [each.name for each in rows.schema.fields if each.metadata.get(EVENT_TIME)]
        declared = declared or [each.name for each in rows.schema.fields if WATERMARK_DELAY in each.metadata]
        if len(declared) != 1:
            problem = "was not given, and no column is declared to hold the event time"
            if declared:
                problem = f"was not given, and several columns may be meant: {', '.join(declared)}"
            raise BadOperator(
                operator,
                field,
                problem,
                hint=f'{field}="the column", or event_time="the column" in read_topic',
            )
        said = declared[0]
    require_columns(rows, [said], operator=operator, field=field)
    kind = rows.schema[said].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        raise BadOperator(
            operator,
            field,
            f"names column {said!r}, which is {kind.simpleString()} and not a timestamp",
            hint=f'cast it: rows.withColumn("{said}", F.col("{said}").cast("timestamp"))',
        )
    return said


def require_watermark(rows: DataFrame, time: str, *, operator: str, field: str = "time") -> None:
    """A stream needs a watermark to know when a time has passed. Bounded rows need none."""
    if rows.isStreaming and WATERMARK_DELAY not in rows.schema[time].metadata:
        raise BadOperator(
            operator,
            field,
            f"is column {time!r}, which has no watermark, so that nothing would ever be complete",
            hint=f'read_topic(…, watermark="10 seconds"), or rows.withWatermark("{time}", "10 seconds")',
        )
