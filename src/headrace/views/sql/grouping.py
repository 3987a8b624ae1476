"""GROUP BY and aggregates: what is computed before the groups, in them, and from their results."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from sqlglot import exp

from headrace.views.sql.dialect import SqlText, quoted, reference, sql_of
from headrace.views.sql.plan import Group, Node, Output, Project
from headrace.views.sql.scope import Names

_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Stddev: "stddev",
    exp.StddevSamp: "stddev",
}

SUPPORTED = "count, sum, avg, min, max, stddev, count_if and count(DISTINCT …), each also with FILTER"


def has_aggregate(expression: exp.Expr) -> bool:
    return any(
        _is_aggregate(node) for node in expression.walk(prune=lambda node: isinstance(node, exp.Window))
    )


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc) and not isinstance(node.parent, exp.Window)


class Grouping(Struct, kw_only=True):
    """One GROUP BY. `by` are its expressions on the columns of the input."""

    text: SqlText
    names: Names
    by: Sequence[exp.Expr]
    inputs: list[Output] = field(default_factory=list)
    aggregates: dict[str, str] = field(default_factory=dict)
    _keys: list[str] = field(default_factory=list)
    _known: dict[str, str] = field(default_factory=dict)
    """names by the text of what they stand for"""

    def __post_init__(self) -> None:
        for each in self.by:
            self._keys.append(self._input(each))

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._keys))

    def after(self, expression: exp.Expr) -> exp.Expr:
        """The expression on the results of the groups, where it was one on the columns of the input."""
        if isinstance(expression, (exp.Alias, exp.Ordered)):
            named = expression.copy()
            named.set("this", self.after(expression.this))
            return named
        for key, by in zip(self._keys, self.by, strict=True):
            if expression == by:
                return reference(key)
        if isinstance(expression, exp.Filter) and _is_aggregate(expression.this):
            return self._aggregate(expression.this, expression.expression.this)
        if _is_aggregate(expression):
            return self._aggregate(expression, None)
        if isinstance(expression, exp.Column):
            shown = self.names.shown.get(expression.name, expression.name)
            raise self.text.bad(
                expression,
                f"column {shown} is neither in GROUP BY nor inside of an aggregate",
                hint=f"add it to GROUP BY, or show one of its values: min({shown})",
            )
        changed = expression.copy()
        for name, part in list(expression.args.items()):
            if isinstance(part, exp.Expr):
                changed.set(name, self.after(part))
            elif isinstance(part, list):
                changed.set(name, [self.after(each) if isinstance(each, exp.Expr) else each for each in part])
        return changed

    def nodes(self, input: Node, where: Output | None) -> Node:
        inputs = tuple(self.inputs) or (Output(name=self.names.new("one"), sql="1", shown="1"),)
        before = Project(input=input, outputs=inputs, where=where)
        return Group(input=before, by=self.keys, aggregates=dict(self.aggregates))

    def _input(self, expression: exp.Expr) -> str:
        sql = sql_of(expression)
        if sql not in self._known:
            self._known[sql] = self.names.new(self.names.text(expression))
            self.inputs.append(Output(name=self._known[sql], sql=sql, shown=self.names.text(expression)))
        return self._known[sql]

    def _aggregate(self, call: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        function, arguments = self._call(call)
        if condition is not None:
            arguments = [
                exp.Case(ifs=[exp.If(this=condition.copy(), true=each.copy())])
                for each in arguments or [exp.Literal.number(1)]
            ]
        inputs = ", ".join(quoted(self._input(each)) for each in arguments) or "*"
        text = f"{function}{inputs})"
        found = next((name for name, known in self.aggregates.items() if known == text), None)
        if found is None:
            found = self.names.new(self.names.text(call))
            self.aggregates[found] = text
        return reference(found)

    def _call(self, call: exp.Expr) -> tuple[str, list[exp.Expr]]:
        """The beginning of the text for GroupChanges, and the arguments; none for all rows."""
        if isinstance(call, exp.CountIf):
            return "count(", [exp.Case(ifs=[exp.If(this=call.this.copy(), true=exp.Literal.number(1))])]
        function = _FUNCTIONS.get(type(call))
        if function is None:
            raise self._unsupported(call)
        inside = call.this
        if isinstance(inside, exp.Distinct):
            if function in ("min", "max"):
                return f"{function}(", list(inside.expressions)
            if function != "count":
                raise self._unsupported(call)
            return "count(distinct ", list(inside.expressions)
        if isinstance(inside, exp.Star) or inside is None:
            return "count(", []
        if call.expressions:
            raise self._unsupported(call)
        if function == "count" and isinstance(inside, exp.Literal):
            return "count(", []
        return f"{function}(", [inside]

    def _unsupported(self, call: exp.Expr) -> Exception:
        return self.text.bad(
            call,
            f"{self.names.text(call)} cannot be kept up to date when rows change or are deleted",
            hint=f"use {SUPPORTED}; or compute it when you read the view",
        )
