"""The path of a match that is tried: its rows by variable, and what its conditions need of them, kept step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.binding import Bound, walk
from headrace.operators.patterns.expressions import EXACT, Scalar, compile_scalar
from headrace.operators.patterns.row_columns import RowColumns


class Path:
    """The rows from `start` on, with the variable of each. Conditions are compiled once, and read the path."""

    def __init__(self, bound: Bound, conditions: Mapping[int, Sequence[of.Expression]]) -> None:
        self._bound = bound
        self._fields: dict[of.Field, list[Any]] = {}
        self._rows: dict[str, list[int]] = {}
        self._lists_of: list[list[list[int]]] = [[] for _ in bound.variables]
        self._folds: list[_Running] = []
        self._fold_of: dict[of.Aggregate, _Running] = {}
        self._variables: list[int] = []
        self._start = self._lower = self._upper = self._number = 0
        self._columns: RowColumns | None = None
        self._names = bound.variables
        self._conditions: list[list[Scalar] | None] = [
            [compile_scalar(each, self._leaf) for each in conditions[number]]
            if number in conditions
            else None
            for number in range(len(bound.variables))
        ]

    def begin(self, columns: RowColumns, partition: int, start: int, number: int) -> None:
        if columns is not self._columns:
            self._columns = columns
            for node in self._fields:
                self._fields[node][:] = columns.field(node).to_pylist()
        self._start, self._number = start, number
        self._lower, self._upper = int(columns.first[partition]), int(columns.end[partition])
        self._variables.clear()
        for each in self._rows.values():
            each.clear()
        for fold in self._folds:
            fold.clear()

    def push(self, variable: int) -> None:
        row = self._start + len(self._variables)
        self._variables.append(variable)
        for rows in self._lists_of[variable]:
            rows.append(row)
        for fold in self._folds:
            fold.push(variable, row)

    def pop(self) -> None:
        variable = self._variables.pop()
        for rows in self._lists_of[variable]:
            rows.pop()
        for fold in self._folds:
            fold.pop()

    def is_satisfied(self) -> bool:
        """Whether the condition of the last row's variable is true, as far as it depends on the path."""
        conditions = self._conditions[self._variables[-1]]
        if conditions is None:
            return True
        return all(each(None) is True for each in conditions)

    # Leaves

    def _leaf(self, node: of.Expression) -> Scalar:
        match node:
            case of.Navigation():
                return self._navigation(node)
            case of.Aggregate():
                fold = self._fold(node)
                return lambda _: fold.value()
            case of.MatchNumber():
                return lambda _: self._number
        raise AssertionError(node)

    def _at_row(self, node: of.Expression) -> Scalar:
        """The expression at a row."""
        match node:
            case of.Field():
                values = self._fields.setdefault(node, [])
                return values.__getitem__
            case of.Classifier():
                return lambda row: self._names[self._variables[row - self._start]]
            case of.MatchNumber():
                return lambda _: self._number
        raise AssertionError(node)

    def _rows_of(self, variable: str) -> list[int]:
        if variable not in self._rows:
            rows: list[int] = []
            self._rows[variable] = rows
            for number in self._bound.numbers(variable):
                self._lists_of[number].append(rows)
        return self._rows[variable]

    def _navigation(self, node: of.Navigation) -> Scalar:
        inner = compile_scalar(node.inner, self._at_row)
        place = node.offset if node.is_first else -1 - node.offset
        is_in_match = any(isinstance(each, of.Classifier) for each in walk(node.inner))
        rows = None if node.variable is None else self._rows_of(node.variable)

        def navigate(_: Any) -> Any:
            if rows is None:
                count = len(self._variables)
                if node.offset >= count:
                    return None
                row = self._start + (place if place >= 0 else count + place)
            elif node.offset >= len(rows):
                return None
            else:
                row = rows[place]
            row += node.rows
            if is_in_match:
                is_there = self._start <= row < self._start + len(self._variables)
            else:
                is_there = self._lower <= row < self._upper
            return inner(row) if is_there else None

        return navigate

    def _fold(self, node: of.Aggregate) -> _Running:
        if node not in self._fold_of:
            inner = None if node.inner is None else compile_scalar(node.inner, self._at_row)
            if node.function == "array_agg" or node.is_distinct:
                fold: _Running = _Collected(node, self._bound.numbers(node.variable), inner)
            else:
                fold = _Running(node, self._bound.numbers(node.variable), inner)
            self._fold_of[node] = fold
            self._folds.append(fold)
        return self._fold_of[node]


class _Running:
    """An aggregate of the rows so far, for each length of the path: a step back forgets the last."""

    def __init__(self, node: of.Aggregate, variables: frozenset[int], inner: Scalar | None) -> None:
        self._variables = variables
        self._inner = inner
        self._add, self._result, self._nothing = _FOLDS[node.function]
        self._states: list[Any] = [self._nothing]

    def clear(self) -> None:
        del self._states[1:]

    def push(self, variable: int, row: int) -> None:
        state = self._states[-1]
        if variable in self._variables:
            value = True if self._inner is None else self._inner(row)
            if value is not None:
                state = self._add(state, value)
        self._states.append(state)

    def pop(self) -> None:
        self._states.pop()

    def value(self) -> Any:
        return self._result(self._states[-1])


class _Collected(_Running):
    """All values so far, in a list that grows and shrinks with the path."""

    def __init__(self, node: of.Aggregate, variables: frozenset[int], inner: Scalar | None) -> None:
        self._variables = variables
        self._inner = inner
        self._node = node
        self._values: list[Any] = []
        self._counts: list[int] = []

    def clear(self) -> None:
        self._values.clear()
        self._counts.clear()

    def push(self, variable: int, row: int) -> None:
        is_in = variable in self._variables
        self._counts.append(is_in)
        if is_in:
            assert self._inner is not None
            self._values.append(self._inner(row))

    def pop(self) -> None:
        if self._counts.pop():
            self._values.pop()

    def value(self) -> Any:
        return collected(self._node, self._values)


class Fold:
    """One aggregate over values that are added one by one."""

    def __init__(self, function: str) -> None:
        self._add, self._result, self._state = _FOLDS[function]

    def add(self, value: Any) -> None:
        if value is not None:
            self._state = self._add(self._state, value)

    def value(self) -> Any:
        return self._result(self._state)


def collected(node: of.Aggregate, values: Sequence[Any]) -> Any:
    """The result of an aggregate that needs all values."""
    if node.function == "array_agg":
        found = list(dict.fromkeys(values)) if node.is_distinct else list(values)
        return found or None
    known = {each: None for each in values if each is not None}
    if node.function == "count":
        return len(known)
    fold = Fold(node.function)
    for each in known:
        fold.add(each)
    return fold.value()


def _is_less(one: Any, other: Any) -> bool:
    """NaN is greater than all numbers."""
    return bool(one < other or (other != other and one == one))


def _added(state: Any, value: Any) -> Any:
    if isinstance(state, Decimal):
        return EXACT.add(state, value)
    return value if state is None else state + value


_FOLDS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any], Any]] = {
    "count": (lambda state, _: state + 1, lambda state: state, 0),
    "sum": (_added, lambda state: state, None),
    "avg": (
        lambda state, value: (state[0] + float(value), state[1] + 1),
        lambda state: state[0] / state[1] if state[1] else None,
        (0.0, 0),
    ),
    "bool_and": (lambda state, value: value if state is None else state and value, lambda state: state, None),
    "bool_or": (lambda state, value: value if state is None else state or value, lambda state: state, None),
    "any_value": (lambda state, value: value if state is None else state, lambda state: state, None),
    "min": (
        lambda state, value: value if state is None or _is_less(value, state) else state,
        lambda state: state,
        None,
    ),
    "max": (
        lambda state, value: value if state is None or _is_less(state, value) else state,
        lambda state: state,
        None,
    ),
}
