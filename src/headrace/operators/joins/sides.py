"""What the two sides of a join must agree on: the columns that are compared, and the names in the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.operators.operator import BadOperator, names, require_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

On = str | Sequence[str] | Mapping[str, str]
"""A column that both sides have, several of them, or {name here: name on the other side}."""

Pairs = tuple[tuple[str, str], ...]


def read_on(said: On, *, operator: str) -> Pairs:
    """(name here, name on the other side) of each column that is compared."""
    if isinstance(said, Mapping):
        here = names(tuple(said), operator=operator, field="on")
        there = names(tuple(said.values()), operator=operator, field="on")
    else:
        here = there = names(said, operator=operator, field="on")
    if not here:
        raise BadOperator(
            operator, "on", "names no column", hint='such as on="user", or on={"user": "id"} if names differ'
        )
    return tuple(zip(here, there, strict=True))


def require_frame(said: object, *, operator: str, field: str) -> None:
    if not all(hasattr(said, name) for name in ("schema", "isStreaming", "select")):
        raise BadOperator(
            operator,
            field,
            f"is {type(said).__name__}, and must be a DataFrame",
            hint="what read_topic gives, or any other one",
        )


def require_like_sides(rows: DataFrame, other: DataFrame, pairs: Pairs, *, operator: str, field: str) -> None:
    """Both are streams or both are bounded, and what is compared is there and of one type."""
    if rows.isStreaming != other.isStreaming:
        stream, bounded = ("the rows", field) if rows.isStreaming else (field, "the rows")
        raise BadOperator(
            operator,
            field,
            f"does not fit: {stream} come as a stream, and {bounded} are bounded",
            hint="read both alike: bounded=True for both of them, or for none",
        )
    require_columns(rows, [here for here, _ in pairs], operator=operator, field="on")
    require_columns(other, [there for _, there in pairs], operator=operator, field="on")
    for here, there in pairs:
        _require_like_keys(rows, other, here, there, operator=operator)


def _require_like_keys(rows: DataFrame, other: DataFrame, here: str, there: str, *, operator: str) -> None:
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


def names_in_result(
    taken: Iterable[str], added: Iterable[str], *, suffix: str, operator: str
) -> dict[str, str]:
    """What the other side's columns are called in the result: as they are, and with the suffix if the name is taken."""
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
                f"is {suffix!r}, and makes {name!r} another column {new!r}",
                hint="choose another suffix, or rename the column first",
            )
    return result
