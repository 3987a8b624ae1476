"""Spark's types of JSON values, from a sample of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_NUMBERS = ("BIGINT", "DOUBLE")
_INT_MAX = 2**63


def inferred_columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The columns of the rows with their types; a column that is always null is a STRING."""
    found: dict[str, str | None] = {}
    for row in rows:
        for name, value in row.items():
            found[name] = wider(found.get(name), type_of(value))
    return {name: kind or "STRING" for name, kind in found.items()}


def type_of(value: Any) -> str | None:
    """None for null, which every type has."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if -_INT_MAX <= value < _INT_MAX else "STRING"
    if isinstance(value, float):
        return "DOUBLE"
    if isinstance(value, list):
        items: str | None = None
        for each in value:
            items = wider(items, type_of(each))
        return f"ARRAY<{items or 'STRING'}>"
    return "STRING"


def wider(one: str | None, other: str | None) -> str | None:
    """The narrowest type that holds both: BIGINT, DOUBLE, STRING."""
    if one is None or other is None or one == other:
        return one or other
    if one in _NUMBERS and other in _NUMBERS:
        return "DOUBLE"
    return "STRING"
