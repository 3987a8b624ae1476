"""The measures of all matches together, as columns.

An entry is a row in a match, with its variable. A measure is evaluated at an entry: at the last one with ONE ROW PER
MATCH, at each one with ALL ROWS PER MATCH. Navigations become positions of entries, and then rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.binding import Bound, aggregate_type, walk
from headrace.operators.patterns.expressions import BadExpression, as_array, evaluate
from headrace.operators.patterns.matching import Found
from headrace.operators.patterns.paths import Fold, collected
from headrace.operators.patterns.row_columns import PointLeaves, RowColumns, where
from headrace.operators.state.ids import Ints, ranges


class Entries:
    """The rows of all matches, one match after another."""

    def __init__(self, bound: Bound, found: Found, columns: RowColumns, variables: Sequence[int]) -> None:
        self.bound = bound
        self.found = found
        self.columns = columns
        counts = found.end - found.start
        self.end = np.cumsum(counts)
        """After the last entry of each match."""
        self.first = self.end - counts
        self.rows = ranges(found.start, found.end)
        self.match = np.repeat(np.arange(len(counts)), counts)
        self.variables = np.asarray(variables, dtype=np.int64)[found.positions]

    @cached_property
    def names(self) -> pa.Array:
        """The variable of each entry, by name."""
        return pa.array(self.bound.variables, pa.string()).take(pa.array(self.variables))

    def of_variable(self, variable: str | None) -> tuple[Ints, Ints]:
        """The entries of a variable, and how many of them are before each entry."""
        if variable is None:
            everything = np.arange(len(self.rows) + 1)
            return everything[:-1], everything
        is_in = np.isin(self.variables, sorted(self.bound.numbers(variable)))
        return np.flatnonzero(is_in), np.append(0, np.cumsum(is_in))

    def inner_at(self, inner: of.Expression, entries: Ints, rows: Ints) -> pa.Array:
        """An expression at these entries and rows, -1 for none."""
        given: dict[str, pa.Array] = {}
        if any(isinstance(each, of.Classifier) for each in walk(inner)):
            given["classifier"] = self.names.take(pa.array(entries, mask=entries < 0))
        if any(isinstance(each, of.MatchNumber) for each in walk(inner)):
            matches = self.match[entries] if len(self.match) else np.empty(0, np.int64)
            given["number"] = (
                pa.array(self.found.number[matches]) if len(matches) else pa.nulls(len(entries), pa.int64())
            )
        return as_array(evaluate(inner, PointLeaves(self.columns, rows, **given)), len(rows))


class MeasureLeaves:
    """The leaves of measures at points: a match, and one of its entries, or -1 for an empty match."""

    def __init__(self, entries: Entries, matches: Ints, points: Ints, time: str | None) -> None:
        self._entries = entries
        self._matches = matches
        self._points = points
        self._time = time

    def leaf(self, node: of.Expression) -> pa.Array:
        match node:
            case of.Navigation():
                return self._navigation(node)
            case of.Aggregate():
                return self._aggregate(node)
            case of.MatchNumber():
                return pa.array(self._entries.found.number[self._matches])
            case of.MatchTime():
                assert self._time is not None
                found = self._entries.found
                last = np.maximum(found.end - 1, found.start)[self._matches]
                return self._entries.columns.field(of.Field(self._time)).take(pa.array(last))
        raise AssertionError(node)

    def _range(self, before: Ints, *, is_final: bool) -> tuple[Ints, Ints]:
        """Of the entries of a variable, those of the match until this point: the first, and after the last."""
        first = before[self._entries.first[self._matches]]
        until = self._entries.end[self._matches] if is_final else self._points + 1
        return first, np.where(self._points >= 0, before[until], first)

    def _navigation(self, node: of.Navigation) -> pa.Array:
        entries = self._entries
        own, before = entries.of_variable(node.variable)
        first, end = self._range(before, is_final=node.is_final)
        place = first + node.offset if node.is_first else end - 1 - node.offset
        is_there = (place >= first) & (place < end)
        target = np.full(len(place), -1, dtype=np.int64)
        target[is_there] = own[place[is_there]]
        if any(isinstance(each, of.Classifier) for each in walk(node.inner)):
            target = self._moved_in_match(target, node.rows)
            rows = np.full(len(target), -1, dtype=np.int64)
            rows[target >= 0] = entries.rows[target[target >= 0]]
        else:
            rows = np.full(len(target), -1, dtype=np.int64)
            rows[is_there] = entries.rows[target[is_there]]
            if node.rows:
                rows = entries.columns.moved(rows, node.rows) if entries.columns.count else rows
        return where(rows >= 0, entries.inner_at(node.inner, target, rows))

    def _moved_in_match(self, target: Ints, by: int) -> Ints:
        moved = target + by
        first, end = self._entries.first[self._matches], self._entries.end[self._matches]
        return np.where((target >= 0) & (moved >= first) & (moved < end), moved, -1)

    def _aggregate(self, node: of.Aggregate) -> pa.Array:
        entries = self._entries
        own, before = entries.of_variable(node.variable)
        first, end = self._range(before, is_final=node.is_final)
        if node.inner is None:
            return pa.array(end - first)
        values = entries.inner_at(node.inner, own, entries.rows[own])
        kind = aggregate_type(node, values)
        if node.function == "count" and not node.is_distinct:
            valid = np.append(0, np.cumsum(np.asarray(values.is_valid())))
            return pa.array(valid[end] - valid[first])
        is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
        is_apart = len(first) < 2 or bool((first[1:] >= end[:-1]).all())
        is_reducible = is_number and is_apart and node.function in ("sum", "avg", "min", "max")
        is_reducible &= not node.is_distinct
        if is_reducible and (node.function != "sum" or _sum_fits(values, first, end)):
            return _reduced(node.function, values, first, end).cast(kind)
        try:
            return _one_by_one(node, values, first, end, kind)
        except (OverflowError, pa.ArrowInvalid):
            limit = f"{kind.precision} digits" if pa.types.is_decimal(kind) else "64 bits"
            problem = f"{node.function.upper()} does not fit in {limit}"
            raise BadExpression(node.at, problem, hint="CAST(… AS DOUBLE)") from None


def _sum_fits(values: pa.Array, first: Ints, end: Ints) -> bool:
    """Whether no sum of so many integers can be too large."""
    if not pa.types.is_integer(values.type) or len(values) == 0:
        return True
    extremes = pc.min_max(values).as_py()
    largest = max(abs(extremes["min"] or 0), abs(extremes["max"] or 0))
    return bool(largest * int((end - first).max(initial=0)) < 2**63)


def _reduced(function: str, values: pa.Array, first: Ints, end: Ints) -> pa.Array:
    """An aggregate of numbers over ranges that do not overlap."""
    is_valid = np.asarray(values.is_valid())
    valid = np.append(0, np.cumsum(is_valid))
    counts = valid[end] - valid[first]
    is_integer = pa.types.is_integer(values.type)
    numbers = np.asarray(values.fill_null(0)).astype(np.int64 if is_integer else np.float64)
    if function in ("min", "max"):
        limits = np.iinfo(np.int64)
        most, least = (limits.max, limits.min) if is_integer else (np.nan, -np.inf)
        numbers = np.where(is_valid, numbers, most if function == "min" else least)
    if function == "avg":
        numbers = numbers.astype(np.float64)
    # NaN is greater than all numbers.
    reduce = {"min": np.fmin, "max": np.maximum}.get(function, np.add)
    result = np.zeros(len(first), dtype=numbers.dtype)
    has_any = np.flatnonzero(end > first)
    if len(has_any):
        edges = np.column_stack([first[has_any], end[has_any]]).ravel()
        padded = np.append(numbers, numbers[:1])
        result[has_any] = reduce.reduceat(padded, edges)[::2]
    if function == "avg":
        result = result / np.maximum(counts, 1)
    return pa.array(result, mask=counts == 0)


def _one_by_one(node: of.Aggregate, values: pa.Array, first: Ints, end: Ints, kind: pa.DataType) -> pa.Array:
    """An aggregate over ranges that grow, such as the rows of a match so far."""
    listed = values.to_pylist()
    if node.function == "array_agg" or node.is_distinct:
        spans = zip(first.tolist(), end.tolist(), strict=True)
        return pa.array([collected(node, listed[start:stop]) for start, stop in spans], kind)
    results: list[Any] = []
    previous, states = -1, [None]
    for start, stop in zip(first.tolist(), end.tolist(), strict=True):
        if start != previous:
            fold = Fold(node.function)
            previous, states = start, [fold.value()]
        while len(states) <= stop - start:
            fold.add(listed[start + len(states) - 1])
            states.append(fold.value())
        results.append(states[stop - start])
    return pa.array(results, kind)


def measured(entries: Entries, matches: Ints, points: Ints, time: str | None) -> list[pa.Array]:
    """The measures at these points."""
    leaves = MeasureLeaves(entries, matches, points, time)
    return [as_array(evaluate(each, leaves), len(points)) for _, each in entries.bound.measures]


def in_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else pc.cast(array, kind)
