"""Random rows and random selections of them, and the databases that have to agree on the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

COLUMNS = ("id", "city", "users", "rate", "is_open", "opened")
KEY = ("id",)
# Letters of several cases and lengths in UTF-8, wildcards of LIKE, quotes, the escape character.
TEXTS = st.text(alphabet="aAbBzßÉé😀_%\\'\" ", max_size=4)
INTEGERS = st.integers(min_value=-20, max_value=20)
FLOATS = st.sampled_from([-2.5, -1.0, -0.1, 0.0, 0.1, 0.5, 1.0, 3.25, 1e6])
DAYS = st.sampled_from(["2026-01-01", "2026-02-28", "2027-12-31"])

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": INTEGERS,
            "city": st.none() | TEXTS,
            "users": st.none() | INTEGERS,
            "rate": st.none() | FLOATS,
            "is_open": st.none() | st.booleans(),
            "opened": st.none() | DAYS,
        }
    ),
    max_size=12,
    unique_by=lambda row: row["id"],
)


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def _pattern(text: str) -> str:
    """Without a backslash at its end, which is an error."""
    return literal(text + "\\" if (len(text) - len(text.rstrip("\\"))) % 2 else text)


COMPARISON = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
TEXT_VALUE = st.sampled_from(["city", "lower(city)", "upper(city)", "coalesce(city, 'b')"]) | TEXTS.map(
    literal
)
_NUMBER = st.sampled_from(["id", "users", "length(city)", "abs(users)", "-users"]) | INTEGERS.map(literal)
INTEGER_VALUE = _NUMBER | st.tuples(_NUMBER, st.sampled_from("+-*%"), _NUMBER).map(
    lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
)
NUMBER_VALUE = (
    INTEGER_VALUE
    | FLOATS.map(literal)
    | st.just("rate")
    | st.tuples(_NUMBER, _NUMBER).map(lambda parts: f"({parts[0]} / {parts[1]})")
)


def _compared(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(values, COMPARISON, values).map(" ".join)


LEAF = st.one_of(
    _compared(TEXT_VALUE),
    _compared(NUMBER_VALUE),
    st.tuples(st.just("opened"), COMPARISON, DAYS.map(literal)).map(" ".join),
    st.sampled_from(["is_open", "TRUE", "FALSE", "is_open = TRUE"]),
    st.sampled_from(COLUMNS).map(lambda name: f"{name} IS NULL"),
    TEXTS.map(_pattern).map(lambda pattern: f"city LIKE {pattern}"),
    st.lists(INTEGERS.map(literal), min_size=1, max_size=4).map(
        lambda values: f"users IN ({', '.join(values)})"
    ),
    st.lists(TEXTS.map(literal), min_size=1, max_size=4).map(lambda values: f"city IN ({', '.join(values)})"),
    st.tuples(NUMBER_VALUE, NUMBER_VALUE, NUMBER_VALUE).map(lambda v: f"{v[0]} BETWEEN {v[1]} AND {v[2]}"),
    st.tuples(TEXT_VALUE, TEXT_VALUE, TEXT_VALUE).map(lambda v: f"{v[0]} BETWEEN {v[1]} AND {v[2]}"),
)
CONDITION = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        inner.map(lambda each: f"NOT ({each})"),
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda v: f"({v[0]} {v[1]} {v[2]})"),
    ),
    max_leaves=5,
)
ORDER = st.lists(
    st.tuples(st.sampled_from(COLUMNS), st.sampled_from(["", " DESC"])),
    max_size=3,
    unique_by=lambda each: each[0],
)


def selection_text(condition: str | None, order: Sequence[tuple[str, str]], limit: int) -> str:
    parts = [f"WHERE {condition}"] if condition else []
    if order:
        parts.append("ORDER BY " + ", ".join(name + direction for name, direction in order))
    return " ".join([*parts, f"LIMIT {limit}"])
