"""Whether two versions of a view have the same rows: their counts, and rows from all over both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from headrace.views.store import Store

SAMPLE_ROWS = 200
"""Of each version. A version that lacks one row in a hundred is found with a probability of 87 % in each direction; the
counts find any row that is only in one of them."""

SHOWN_ROWS = 3
"""Differences that a message shows."""

RELATIVE_TOLERANCE = 1e-9
"""Sums of fractions depend on the order in which batches add them."""


class Comparison(Struct, frozen=True, kw_only=True):
    old_rows: int
    new_rows: int
    compared: int = 0
    """rows that were compared by all their columns"""
    differences: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        return self.old_rows == self.new_rows and not self.differences

    @property
    def is_emptied(self) -> bool:
        return self.old_rows > 0 and self.new_rows == 0


def counts_of(old: Store, old_version: int, new: Store, new_version: int) -> Comparison:
    """For versions whose definitions differ: their rows can't be compared."""
    return Comparison(old_rows=old.count(old_version), new_rows=new.count(new_version))


def have_same_columns(store: Store, old: int, new: int) -> bool:
    """Also if one of them has no row, which shows no columns."""
    of_old, of_new = ({*row} for version in (old, new) for row in store.sample(version, 1) or [{}])
    return not of_old or not of_new or of_old == of_new


def compare(store: Store, old: int, new: int, *, sample: int = SAMPLE_ROWS) -> Comparison:
    """Both versions have to be at the same position."""
    found: dict[str, str] = {}
    compared = 0
    for version, other in ((old, new), (new, old)):
        rows = store.sample(version, sample)
        keys = [{name: row[name] for name in store.definition.key} for row in rows]
        for key, row, match in zip(keys, rows, store.find(other, keys), strict=True):
            compared += 1
            pair = (row, match) if version == old else (match, row)
            if not is_same(*pair):
                found.setdefault(repr(key), f"{_words(key)}: {_difference(*pair)}")
    return Comparison(
        old_rows=store.count(old),
        new_rows=store.count(new),
        compared=compared,
        differences=tuple(found.values()),
    )


def is_same(old: Any, new: Any) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(is_same(old[name], new[name]) for name in old)
    if isinstance(old, float) and isinstance(new, float):
        both_nan = math.isnan(old) and math.isnan(new)
        return both_nan or math.isclose(old, new, rel_tol=RELATIVE_TOLERANCE)
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return len(old) == len(new) and all(map(is_same, old, new))
    return bool(old == new)


def shown(differences: Sequence[str]) -> str:
    rest = len(differences) - SHOWN_ROWS
    more = [f"and {rest} more"] if rest > 0 else []
    return "; ".join([*differences[:SHOWN_ROWS], *more])


def _difference(old: dict[str, Any] | None, new: dict[str, Any] | None) -> str:
    if old is None or new is None:
        return "only in the old version" if new is None else "only in the new version"
    names = [name for name in {**old, **new} if not is_same(old.get(name), new.get(name))]
    return ", ".join(f"{name} is {new.get(name)!r} and was {old.get(name)!r}" for name in names)


def _words(key: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in key.items())
