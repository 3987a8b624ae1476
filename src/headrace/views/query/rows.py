"""A selection of rows in memory, for stores without SQL. It gives the rows that a database would give."""

from __future__ import annotations

import functools
import heapq
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.conditions.errors import NotComparable
from headrace.conditions.evaluation import evaluated, order
from headrace.views.definition import Row
from headrace.views.errors import BadView
from headrace.views.query.text import condition
from headrace.views.selection import Selection


def selected(rows: Iterable[Row], selection: Selection) -> list[dict[str, Any]]:
    """The rows of the selection, in its order."""
    where = condition(selection.where)
    matching = (row for row in rows if where is None or evaluated(where, row) is True)
    key = functools.cmp_to_key(functools.partial(_compared, selection.order_by))
    try:
        first = heapq.nsmallest(selection.offset + selection.limit, matching, key=key)
    except NotComparable as error:
        raise BadView(error.message, hint=error.hint) from error
    return [dict(row) for row in first[selection.offset :]]


def _compared(
    order_by: tuple[tuple[str, bool], ...], one: Mapping[str, Any], other: Mapping[str, Any]
) -> int:
    for name, is_descending in order_by:
        left, right = one.get(name), other.get(name)
        if left is None or right is None:
            if (left is None) != (right is None):
                return 1 if left is None else -1
        elif order(left, right):
            return -order(left, right) if is_descending else order(left, right)
    return 0
