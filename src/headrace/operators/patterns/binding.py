"""Names in a pattern, resolved: variables and subsets, columns, functions, and the types of measures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from headrace.names import nearest
from headrace.operators.ordering import is_ordered
from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.expressions import (
    FUNCTIONS,
    NAMED_FUNCTIONS,
    SAME,
    BadExpression,
    Datum,
    cast_type,
    evaluate,
)
from headrace.operators.patterns.place import BadPattern

NAVIGATIONS = ("first", "last", "prev", "next")
AGGREGATES = ("count", "sum", "avg", "min", "max", "bool_and", "bool_or", "any_value", "array_agg")
CHANGED_BY_DISTINCT = ("count", "sum", "avg", "array_agg")
"""The others have the same result without DISTINCT."""

VARIABLES_MAX = 60
"""Which variables a row satisfies is one number of 64 bits."""

OFFSET_MAX = 100_000
"""The largest offset of a navigation: so many rows before a match may be stored."""


class Bound(Struct, frozen=True, kw_only=True):
    """A pattern whose names are resolved."""

    clauses: of.Clauses
    keys: tuple[str, ...]
    variables: tuple[str, ...]
    sets: Mapping[str, frozenset[int]]
    """The numbers of the variables that a variable or subset stands for."""
    conditions: tuple[of.Expression | None, ...]
    """By the number of the variable; None if every row satisfies it."""
    measures: tuple[tuple[str, of.Expression], ...]

    def numbers(self, variable: str | None) -> frozenset[int]:
        return frozenset(range(len(self.variables))) if variable is None else self.sets[variable]

    def expressions(self) -> Iterator[of.Expression]:
        yield from (each for each in self.conditions if each is not None)
        yield from (each for _, each in self.measures)

    def columns(self) -> list[str]:
        """The columns that conditions and measures use."""
        found = (
            node.column for each in self.expressions() for node in walk(each) if isinstance(node, of.Field)
        )
        return list(dict.fromkeys(found))


def walk(node: of.Expression) -> Iterator[of.Expression]:
    yield node
    for each in of.children(node):
        yield from walk(each)


def bind(text: str, clauses: of.Clauses, columns: Sequence[str] | None = None) -> Bound:
    """Resolve the names. Without the columns of the rows, all but those are checked."""
    return _Binding(text, clauses, columns).bound()


class _Binding:
    def __init__(self, text: str, clauses: of.Clauses, columns: Sequence[str] | None) -> None:
        self._text = text
        self._clauses = clauses
        self._columns = columns
        self._in_pattern = of.variables_of(clauses.pattern)
        self._spelled: dict[str, str] = {}
        for name, variable in self._in_pattern.items():
            # Names are compared without case, as in SQL, and shown as the pattern has them.
            self._spelled.setdefault(name.casefold(), name)
            if self._spelled[name.casefold()] != name:
                raise self._bad(
                    variable.at,
                    f"variable {name!r} is also written {self._spelled[name.casefold()]!r}",
                    "write it in one way",
                )
        self.variables = tuple(self._in_pattern)
        self.sets = {name: frozenset([number]) for number, name in enumerate(self.variables)}
        self._own: str | None = None
        self._is_condition = False

    def _bad(self, at: int, problem: str, hint: str = "") -> BadPattern:
        return BadPattern(self._text, at, problem, hint=hint)

    def bound(self) -> Bound:
        clauses = self._clauses
        if len(self.variables) > VARIABLES_MAX:
            raise self._bad(
                clauses.pattern_at,
                f"the pattern has {len(self.variables)} variables",
                f"at most {VARIABLES_MAX}",
            )
        for subset in clauses.subsets:
            self._add_subset(subset)
        if clauses.skip.variable is not None:
            clauses = replace(
                clauses,
                skip=replace(clauses.skip, variable=self._variable(clauses.skip.variable, clauses.skip.at)),
            )
        if clauses.rows_per_match == "all with unmatched" and of.has_part(clauses.pattern, of.Exclusion):
            raise self._bad(
                clauses.pattern_at,
                "an exclusion {- -} is not possible with ALL ROWS PER MATCH WITH UNMATCHED ROWS",
                "remove one of them",
            )
        order = tuple(replace(each, column=self._column(each.column, each.at)) for each in clauses.order_by)
        keys = tuple(self._column(self._only(each), each.at) for each in clauses.partition_by)
        return Bound(
            clauses=replace(clauses, order_by=order),
            keys=keys,
            variables=self.variables,
            sets=self.sets,
            conditions=self._conditions(),
            measures=self._measures(),
        )

    def _only(self, name: of.Name) -> str:
        if len(name.parts) > 1:
            raise self._bad(
                name.at, f"{'.'.join(name.parts)} is not a column", "select the field as a column first"
            )
        return name.parts[0]

    def _add_subset(self, subset: of.Subset) -> None:
        key = subset.name.casefold()
        if key in self._spelled:
            raise self._bad(subset.at, f"{subset.name!r} is already a variable", "choose another name")
        members = [self._variable(each, subset.at) for each in subset.variables]
        if any(each not in self._in_pattern for each in members):
            raise self._bad(
                subset.at, "a subset of subsets is not possible", "name the variables of the pattern"
            )
        self._spelled[key] = subset.name
        self.sets[subset.name] = frozenset().union(*(self.sets[each] for each in members))

    def _variable(self, name: str, at: int) -> str:
        found = self._spelled.get(name.casefold())
        if found is None:
            raise self._bad(
                at,
                f"variable {name!r} is unknown",
                _choice(name, self._spelled.values(), "the variables are"),
            )
        return found

    def _column(self, name: str, at: int) -> str:
        if self._columns is None or name in self._columns:
            return name
        alike = [each for each in self._columns if each.casefold() == name.casefold()]
        if len(alike) == 1:
            return alike[0]
        hint = _choice(name, self._columns, "the columns are")
        raise self._bad(at, f"column {name!r} does not exist", hint)

    def _conditions(self) -> tuple[of.Expression | None, ...]:
        found: dict[str, of.Expression] = {}
        self._is_condition = True
        for each in self._clauses.conditions:
            name = self._variable(each.name, each.at)
            if name not in self._in_pattern:
                raise self._bad(each.at, f"{each.name!r} is a subset, which has no condition", "remove it")
            if name in found:
                raise self._bad(
                    each.at, f"variable {each.name!r} is defined twice", "combine the conditions: AND"
                )
            self._own = name
            found[name] = self._bind(each.expression)
        self._own, self._is_condition = None, False
        return tuple(found.get(name) for name in self.variables)

    def _measures(self) -> tuple[tuple[str, of.Expression], ...]:
        found: dict[str, of.Expression] = {}
        for each in self._clauses.measures:
            if each.name in found:
                raise self._bad(each.at, f"measure {each.name!r} is there twice", "rename one of them")
            found[each.name] = self._bind(each.expression)
        return tuple(found.items())

    # Expressions

    def _bind(self, node: of.Expression) -> of.Expression:
        """An expression outside of navigations and aggregates."""
        match node:
            case of.Name():
                variable, field = self._field(node)
                return of.Navigation(field, variable, at=node.at)
            case of.Operation():
                return replace(node, operands=tuple(map(self._bind, node.operands)))
            case of.Cast():
                self._checked_cast(node)
                return replace(node, operand=self._bind(node.operand))
            case of.Call():
                return self._call(node)
        return node

    def _checked_cast(self, node: of.Cast) -> None:
        try:
            cast_type(node)
        except BadExpression as error:
            raise self._bad(node.at, error.message, error.hint) from None

    def _call(self, node: of.Call) -> of.Expression:
        node = replace(node, function=SAME.get(node.function, node.function))
        function = node.function
        if function in NAVIGATIONS:
            return self._navigation(node)
        if function in AGGREGATES:
            return self._aggregate(node)
        self._require_plain(node)
        match function:
            case "classifier":
                return of.Navigation(of.Classifier(node.at), self._classified(node), at=node.at)
            case "match_number":
                self._require_count(node, 0, 0)
                return of.MatchNumber(node.at)
            case "match_rowtime":
                self._require_count(node, 0, 0)
                if self._is_condition:
                    raise self._bad(node.at, "MATCH_ROWTIME() is not possible in DEFINE", "use the column")
                return of.MatchTime(node.at)
        return self._plain(node, self._bind)

    def _plain(self, node: of.Call, bind: Any) -> of.Expression:
        function = SAME.get(node.function, node.function)
        if function not in FUNCTIONS or function not in NAMED_FUNCTIONS:
            known = [
                *NAMED_FUNCTIONS,
                *NAVIGATIONS,
                *AGGREGATES,
                "classifier",
                "match_number",
                "match_rowtime",
            ]
            raise self._bad(
                node.at,
                f"function {node.function.upper()} is unknown",
                _choice(node.function, known, "known are"),
            )
        self._require_count(node, FUNCTIONS[function].least, FUNCTIONS[function].most)
        return of.Operation(function, tuple(map(bind, node.arguments)), node.at)

    def _require_plain(self, node: of.Call) -> None:
        name = node.function.upper()
        if node.semantics is not None:
            raise self._bad(node.at, f"{node.semantics.upper()} is not possible with {name}", "remove it")
        if node.star is not None or node.is_distinct:
            raise self._bad(node.at, f"{name} is not an aggregate", f"use one of {', '.join(AGGREGATES)}")

    def _require_count(self, node: of.Call, least: int, most: int | None) -> None:
        count = len(node.arguments)
        if count < least or (most is not None and count > most):
            wanted = (
                str(least) if least == most else f"at least {least}" if most is None else f"{least} to {most}"
            )
            raise self._bad(node.at, f"{node.function.upper()} has {count} arguments", f"it takes {wanted}")

    def _classified(self, node: of.Call) -> str | None:
        self._require_count(node, 0, 1)
        if not node.arguments:
            return None
        name = node.arguments[0]
        if not isinstance(name, of.Name) or len(name.parts) > 1:
            raise self._bad(node.at, "CLASSIFIER takes a variable", "such as CLASSIFIER(A), or CLASSIFIER()")
        return self._variable(name.parts[0], name.at)

    def _require_semantics(self, node: of.Call) -> bool:
        if node.semantics == "final" and self._is_condition:
            raise self._bad(
                node.at, "FINAL is not possible in DEFINE", "a condition sees the rows so far: RUNNING"
            )
        return node.semantics == "final"

    def _navigation(self, node: of.Call) -> of.Navigation:
        self._require_count(node, 1, 2)
        if node.star is not None or node.is_distinct:
            raise self._bad(
                node.at, f"{node.function.upper()} takes an expression", "such as LAST(A.price, 1)"
            )
        is_final = self._require_semantics(node)
        is_physical = node.function in ("prev", "next")
        if is_physical and node.semantics is not None:
            raise self._bad(
                node.at,
                f"{node.semantics.upper()} is not possible with {node.function.upper()}",
                "write PREV(FINAL LAST(…))",
            )
        offset = self._offset(node, default=1 if is_physical else 0)
        inner = node.arguments[0]
        if is_physical:
            rows = -offset if node.function == "prev" else offset
            if isinstance(inner, of.Call) and inner.function in ("first", "last"):
                return replace(self._navigation(inner), rows=rows, at=node.at)
            variable, bound = self._inside(inner, node)
            return of.Navigation(bound, variable, rows=rows, at=node.at)
        variable, bound = self._inside(inner, node)
        return of.Navigation(
            bound, variable, is_first=node.function == "first", offset=offset, is_final=is_final, at=node.at
        )

    def _offset(self, node: of.Call, default: int) -> int:
        if len(node.arguments) == 1:
            return default
        given = node.arguments[1]
        value = given.value if isinstance(given, of.Constant) else None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= OFFSET_MAX:
            raise self._bad(
                given.at,
                f"the offset of {node.function.upper()} must be a number from 0 to {OFFSET_MAX:,}",
                f"such as {node.function.upper()}(price, 2)",
            )
        return value

    def _aggregate(self, node: of.Call) -> of.Aggregate:
        is_final = self._require_semantics(node)
        if node.star is not None or (node.function == "count" and not node.arguments):
            if node.function != "count":
                raise self._bad(
                    node.at, f"{node.function.upper()}(*) is not possible", "only COUNT(*) counts rows"
                )
            variable = self._variable(node.star[0], node.at) if node.star else None
            return of.Aggregate("count", None, variable, is_final, at=node.at)
        self._require_count(node, 1, 1)
        variable, inner = self._inside(node.arguments[0], node)
        is_distinct = node.is_distinct and node.function in CHANGED_BY_DISTINCT
        return of.Aggregate(node.function, inner, variable, is_final, is_distinct, at=node.at)

    def _inside(self, node: of.Expression, around: of.Call) -> tuple[str | None, of.Expression]:
        """The argument of a navigation or an aggregate, and the variable of its columns: all must have the same."""
        found: dict[str | None, int] = {}

        def bound(part: of.Expression) -> of.Expression:
            match part:
                case of.Name():
                    variable, field = self._field(part)
                    found.setdefault(variable, part.at)
                    return field
                case of.Operation():
                    return replace(part, operands=tuple(map(bound, part.operands)))
                case of.Cast():
                    self._checked_cast(part)
                    return replace(part, operand=bound(part.operand))
                case of.Call(function="classifier"):
                    self._require_plain(part)
                    found.setdefault(self._classified(part), part.at)
                    return of.Classifier(part.at)
                case of.Call(function="match_number"):
                    self._require_plain(part)
                    self._require_count(part, 0, 0)
                    return of.MatchNumber(part.at)
                case of.Call() if SAME.get(part.function, part.function) in (
                    *NAVIGATIONS,
                    *AGGREGATES,
                    "match_rowtime",
                ):
                    raise self._bad(
                        part.at,
                        f"{part.function.upper()} is not possible inside of {around.function.upper()}",
                        "only PREV and NEXT take FIRST or LAST: PREV(LAST(A.price, 1), 2)",
                    )
                case of.Call():
                    self._require_plain(part)
                    return self._plain(part, bound)
            return part

        inner = bound(node)
        if len(found) > 1:
            names = " and ".join("all rows" if each is None else repr(each) for each in found)
            raise self._bad(
                [*found.values()][1],
                f"the columns inside of {around.function.upper()} are of different variables: {names}",
                "an argument may use the columns of one variable",
            )
        if not found and around.function in NAVIGATIONS:
            raise self._bad(
                around.at, f"{around.function.upper()} has no column in its argument", "name a column"
            )
        return next(iter(found), None), inner

    def _field(self, name: of.Name) -> tuple[str | None, of.Field]:
        """The variable before a column, if any, and the column."""
        first, *rest = name.parts
        variable = self._spelled.get(first.casefold()) if rest else None
        if variable is None and rest and self._columns is not None:
            known = {each.casefold() for each in self._columns}
            if first.casefold() not in known:
                raise self._bad(
                    name.at,
                    f"variable {first!r} is unknown",
                    _choice(first, self._spelled.values(), "the variables are"),
                )
        parts = rest if variable is not None else [first, *rest]
        at = name.at + (len(first) + 1 if variable is not None else 0)
        return variable, of.Field(self._column(parts[0], at), tuple(parts[1:]), name.at)


def _choice(name: str, known: Iterable[str], otherwise: str) -> str:
    choices = list(dict.fromkeys(known))
    near = nearest(name, choices)
    return f"did you mean {near!r}?" if near else f"{otherwise} {', '.join(choices)}"


# Types


class EmptyLeaves:
    """Columns without rows: an expression over them has the type of its results."""

    def __init__(self, columns: Mapping[str, pa.DataType], time: str | None) -> None:
        self._columns = columns
        self._time = time

    def leaf(self, node: of.Expression) -> pa.Array:
        match node:
            case of.Field():
                return _no_rows(field_type(self._columns[node.column], node))
            case of.Navigation():
                return _no_rows(evaluate(node.inner, self).type)
            case of.Aggregate():
                inner = None if node.inner is None else evaluate(node.inner, self)
                return _no_rows(aggregate_type(node, inner))
            case of.Classifier():
                return _no_rows(pa.string())
            case of.MatchNumber():
                return _no_rows(pa.int64())
            case of.MatchTime():
                if self._time is None:
                    raise BadExpression(node.at, "MATCH_ROWTIME() needs ORDER BY a timestamp", hint="add it")
                return _no_rows(self._columns[self._time])
        raise AssertionError(node)


def _no_rows(kind: pa.DataType) -> pa.Array:
    return pa.array([], kind)


def field_type(kind: pa.DataType, node: of.Field) -> pa.DataType:
    for name in node.path:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            raise BadExpression(node.at, f"{'.'.join((node.column, *node.path))} is not a field of a struct")
        kind = kind.field(name).type
    return kind


def aggregate_type(node: of.Aggregate, inner: Datum | None) -> pa.DataType:
    if node.is_distinct and inner is not None and pa.types.is_nested(inner.type):
        problem = f"{node.function.upper()}(DISTINCT …) is not possible with {inner.type}"
        raise BadExpression(node.at, problem, hint="compare the fields of a struct one by one")
    if node.function == "count":
        return pa.int64()
    assert inner is not None
    kind = inner.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    match node.function:
        case "sum" | "avg" if not is_number:
            raise BadExpression(node.at, f"{node.function.upper()} needs a number, not {kind}")
        case "avg":
            return pa.float64()
        case "sum":
            if pa.types.is_decimal(kind):
                return pa.decimal128(38, kind.scale)
            return pa.int64() if pa.types.is_integer(kind) else pa.float64()
        case "array_agg":
            return pa.list_(kind)
        case "any_value":
            return kind
        case "bool_and" | "bool_or":
            if not pa.types.is_boolean(kind):
                raise BadExpression(node.at, f"{node.function.upper()} needs true or false, not {kind}")
            return kind
    if pa.types.is_nested(kind):
        raise BadExpression(node.at, f"{node.function.upper()} needs values with an order, not {kind}")
    return kind


def check_types(
    text: str, bound: Bound, columns: Mapping[str, pa.DataType], time: str | None
) -> dict[str, pa.DataType]:
    """The types of the measures. Raises if a clause is not possible with the types of the columns."""
    leaves = EmptyLeaves(columns, time)
    try:
        _check_order(bound, columns)
        for condition in bound.conditions:
            if condition is None:
                continue
            kind = evaluate(condition, leaves).type
            if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
                raise BadExpression(condition.at, f"a condition must be true or false, but this is {kind}")
        return {name: evaluate(each, leaves).type for name, each in bound.measures}
    except BadExpression as error:
        raise BadPattern(text, error.at, error.message, hint=error.hint) from None


def _check_order(bound: Bound, columns: Mapping[str, pa.DataType]) -> None:
    clauses = bound.clauses
    for name, each in zip(bound.keys, clauses.partition_by, strict=True):
        if pa.types.is_nested(columns[name]):
            problem = f"column {name!r} is {columns[name]}, which can't be a key"
            raise BadExpression(each.at, problem, hint="select its parts as columns, or use to_json")
    for term in clauses.order_by:
        if not is_ordered(columns[term.column]):
            problem = f"column {term.column!r} is {columns[term.column]}, which has no order"
            raise BadExpression(term.at, problem, hint="order by other columns")
