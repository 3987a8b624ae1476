"""The common part of joins: the checks of the compared columns, the sides of a join on Spark, and the columns of the
result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from headrace.operators.operator import BadOperator, names, require_columns
from headrace.plan_names import EMITTED_TIME, EVENT_TIME, WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

On = str | Sequence[str] | Mapping[str, str]
"""A column of both sides, several columns, or {name in the rows: name on the other side}."""

Pairs = tuple[tuple[str, str], ...]

Unmatched = Literal["left", "right", "both", None]
"""The side of a join of streams whose unmatched rows are also emitted."""

HOW: Mapping[Unmatched, str] = {
    None: "inner",
    "left": "left_outer",
    "right": "right_outer",
    "both": "full_outer",
}
"""The name of the join in Spark."""


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


def code(number: int) -> Column:
    """The number of a side. A constant of its type can't fail, as a cast of a computed number may."""
    from pyspark.sql import functions as F

    return F.lit(number).cast("byte")


def require_frame(frame: object, *, operator: str, field: str) -> None:
    # A column has every attribute, its type has not.
    if not all(hasattr(type(frame), name) for name in ("schema", "isStreaming", "select")):
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
    require_like_keys(rows, other, pairs, operator=operator)


def require_like_keys(rows: DataFrame, other: DataFrame, pairs: Pairs, *, operator: str) -> None:
    """Raise if a compared column is missing or has different types."""
    require_columns(rows, [here for here, _ in pairs], operator=operator, field="on")
    require_columns(other, [there for _, there in pairs], operator=operator, field="on")
    for here, there in pairs:
        _require_like_pair(rows, other, here, there, operator=operator)


def _require_like_pair(rows: DataFrame, other: DataFrame, here: str, there: str, *, operator: str) -> None:
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


def keeps_of(unmatched: Unmatched) -> tuple[bool, bool]:
    """Whether the unmatched rows of the left and of the right side are emitted."""
    return unmatched in ("left", "both"), unmatched in ("right", "both")


def on_text(pairs: Pairs) -> str:
    return ", ".join(f"{here}={there}" for here, there in pairs)


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


def result_columns(
    left: JoinSide, right: JoinSide, pairs: Pairs, *, unmatched: Unmatched, suffix: str, operator: str
) -> list[Column]:
    """The columns of both sides. A column of `on` with the same name on both sides appears once."""
    from pyspark.sql import functions as F

    same = {here for here, there in pairs if here == there}
    added = [name for name in right.names if name not in same]
    called = names_in_result(left.names, added, suffix=suffix, operator=operator)
    columns = []
    for name in left.names:
        if name in same and unmatched in ("right", "both"):
            columns.append(F.coalesce(left[name], right[name]).alias(name))
        else:
            columns.append(left[name].alias(name, metadata=left.metadata(name)))
    for name in added:
        # The result has only one event time, so that later operators can find it.
        metadata: dict[str, Any] = {"metadata": {EVENT_TIME: False}} if name == right.time else {}
        columns.append(right[name].alias(called[name], **metadata))
    return columns


class JoinSide:
    """One side with unique column names: both sides may be the same DataFrame."""

    def __init__(self, frame: DataFrame, which: str, time: str) -> None:
        from pyspark.sql import functions as F

        self.names = list(frame.columns)
        self.time = time
        self._schema = frame.schema
        self._called = {name: f"__{which}_{number}" for number, name in enumerate(self.names)}
        # For Spark's join, a row at the watermark is late. Operators of Headrace emit it when the watermark has passed
        # it, so its time must be after the watermark.
        instant = F.expr("interval 1 microsecond")
        is_after = EMITTED_TIME in frame.schema[time].metadata
        columns = []
        for name, called in self._called.items():
            metadata = without_watermark(self.metadata(name)) if is_after else self.metadata(name)
            columns.append(F.col(f"`{name}`").alias(called, metadata=metadata))
        self.at = F.col(self._called[time])
        if is_after:
            after = (F.col(f"`{time}`") + instant).alias(f"__{which}_after", metadata=self.metadata(time))
            columns.append(after)
            self.at = F.col(f"__{which}_after") - instant
        self.frame = frame.select(*columns)

    def metadata(self, name: str) -> dict[str, Any]:
        """The metadata of a column in the result. Spark accepts only one column with a watermark."""
        metadata = dict(self._schema[name].metadata)
        return metadata if name == self.time else without_watermark(metadata)

    def __getitem__(self, name: str) -> Column:
        from pyspark.sql import functions as F

        return F.col(self._called[name])


def without_watermark(metadata: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in metadata.items() if key != WATERMARK_DELAY}


def require_like_times(
    rows: DataFrame, other: DataFrame, time: str, other_time: str, *, operator: str
) -> None:
    kind, other_kind = rows.schema[time].dataType, other.schema[other_time].dataType
    if kind != other_kind:
        raise BadOperator(
            operator,
            "other_time",
            f"is column {other_time!r}, which is {other_kind.simpleString()}, "
            f"but {time!r} is {kind.simpleString()}",
            hint=f'cast one of them: F.col("{other_time}").cast("{kind.simpleString()}")',
        )
