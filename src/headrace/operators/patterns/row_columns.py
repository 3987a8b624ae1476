"""The columns of sorted rows, and expressions at rows of them: at each row, or at given rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.expressions import as_array, evaluate
from headrace.operators.state.ids import Ints, Mask


class RowColumns:
    """Columns by name, and where the partitions of the rows are: `first` and `end` of each."""

    def __init__(self, columns: Mapping[str, pa.Array], first: Ints, end: Ints) -> None:
        self._columns = columns
        self.first = first
        self.end = end
        self.count = int(end[-1]) if len(end) else 0

    def field(self, node: of.Field) -> pa.Array:
        found = self._columns[node.column]
        for name in node.path:
            found = pc.struct_field(found, name)
        return found

    def leaves(self, variable: str) -> ConditionLeaves:
        return ConditionLeaves(self, variable)

    @cached_property
    def partition(self) -> Ints:
        """The number of the partition of each row."""
        return np.repeat(np.arange(len(self.first)), self.end - self.first)

    def same_partition(self, one: int, other: int) -> bool:
        return bool(self.partition[one] == self.partition[other])

    def moved(self, rows: Ints, by: int) -> Ints:
        """The rows so many rows later in the same partition, -1 for none."""
        moved = rows + by
        partition = self.partition[np.maximum(rows, 0)]
        is_there = (rows >= 0) & (moved >= self.first[partition]) & (moved < self.end[partition])
        return np.where(is_there, moved, -1)


class ConditionLeaves:
    """The leaves of a condition that does not depend on the match, at every row."""

    def __init__(self, columns: RowColumns, variable: str) -> None:
        self._columns = columns
        self._variable = variable

    def leaf(self, node: of.Expression) -> pa.Array:
        count = self._columns.count
        match node:
            case of.Navigation():
                if node.rows == 0:
                    return as_array(evaluate(node.inner, self), count)
                rows = self._columns.moved(np.arange(count), node.rows)
                return where(
                    rows >= 0, as_array(evaluate(node.inner, PointLeaves(self._columns, rows)), count)
                )
            case of.Field():
                return self._columns.field(node)
            case of.Classifier():
                return pa.repeat(self._variable, count)
        raise AssertionError(node)


class PointLeaves:
    """The leaves of an expression at given rows, null at -1."""

    def __init__(self, columns: RowColumns, rows: Ints, **given: pa.Array) -> None:
        self._columns = columns
        self._given = given
        self._rows = pa.array(rows, mask=rows < 0)

    def leaf(self, node: of.Expression) -> pa.Array:
        match node:
            case of.Field():
                return self._columns.field(node).take(self._rows)
            case of.Classifier():
                return self._given["classifier"]
            case of.MatchNumber():
                return self._given["number"]
        raise AssertionError(node)


def where(mask: Mask, array: pa.Array) -> pa.Array:
    """The values, null where the mask is false: an expression may have a value without its row."""
    if mask.all():
        return array
    nothing: Any = pa.scalar(None, array.type)
    return pc.if_else(pa.array(mask), array, nothing)
