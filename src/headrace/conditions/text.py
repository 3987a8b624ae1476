"""The text of a condition, parsed: `city = 'Oslo' AND users > 10`.

The text may come from anyone. Only what is listed here gets through, and each value as a value: nothing of the text
reaches a database as it is.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headrace.conditions.errors import BadCondition
from headrace.conditions.expression import Call, Column, Expression, Literal, quoted
from headrace.errors import HeadraceError

T = TypeVar("T")

TEXT_CHARS_MAX = 10_000
"""A list of a few hundred keys fits."""

NODES_MAX = 1_000
"""Values, columns and operators of a condition. SQLite rejects expressions that are nested deeper."""

INTEGER_MAX = 2**63 - 1

DIALECT = "trino"  # the dialect of sqlglot that is nearest to the standard: nulls last, no other quotes

_CONDITIONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Abs: "abs",
    exp.Length: "length",
    exp.Lower: "lower",
    exp.Upper: "upper",
}
# Any other argument of a node of sqlglot's is a variant that not every store has.
ARGUMENTS = frozenset({"this", "expression", "expressions", "low", "high", "is_string", "desc", "typed"})
ALLOWED = (
    "comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, + - * / %, abs, coalesce, length, lower, upper"
)


class ConditionParser:
    """Of text that follows `PREFIX` in a statement. A subclass may take more clauses, and know the columns."""

    PREFIX = "SELECT * FROM v WHERE "
    WHAT = "condition"
    HINT = "it looks like: city = 'Oslo' AND users > 10"
    CLAUSES = frozenset({"kind", "expressions", "from_", "where"})
    ARGUMENTS = ARGUMENTS | {"table", "db", "catalog"}  # the path of a nested field
    ERROR: type[HeadraceError] = BadCondition

    def __init__(self, text: str) -> None:
        self._text = text
        self._nodes = 0
        self.columns: dict[str, tuple[str, ...]] = {}
        """The columns of the condition, each with its path in a record."""

    def tree(self) -> Expression:
        return self.checked(lambda query: self.condition(query.args["where"].this))

    def checked(self, build: Callable[[exp.Select], T]) -> T:
        """What `build` makes of the statement; every error is one for users."""
        if len(self._text) > TEXT_CHARS_MAX or "\0" in self._text:
            raise self.ERROR(
                f"a {self.WHAT} can't have {len(self._text):,} characters or the character NUL",
                hint=f"shorten it to {TEXT_CHARS_MAX:,} characters, or select on the side of the reader",
            )
        try:
            return build(self._query())
        except SqlglotError as error:
            raise self.ERROR(self._described(error), hint=self.HINT) from error
        except RecursionError as error:
            raise self.ERROR(
                f"the {self.WHAT} is nested too deeply", hint="write it with fewer parentheses"
            ) from error

    def _query(self) -> exp.Select:
        statements = sqlglot.parse(self.PREFIX + self._text, dialect=DIALECT)
        query = statements[0] if len(statements) == 1 else None
        if not isinstance(query, exp.Select) or _has_other_clauses(query, self.CLAUSES):
            raise self.ERROR(f"{self._text!r} is not a {self.WHAT}", hint=self.HINT)
        return query

    # Conditions

    def condition(self, node: exp.Expr) -> Expression:
        self.enter(node)
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.And() | exp.Or():
                name = "and" if isinstance(node, exp.And) else "or"
                return Call(name, tuple(self.condition(each) for each in node.flatten()))
            case exp.Not():
                return Call("not", (self.condition(node.this),))
            case exp.In() if node.expressions:
                return Call("in", self._values(node.this, *node.expressions))
            case exp.Between():
                return Call("between", self._values(node.this, node.args["low"], node.args["high"]))
            case exp.Like():
                return Call("like", (self._value(node.this), self._pattern(node.expression)))
            case exp.Is() if isinstance(node.expression, exp.Null):
                return Call("is null", (self._value(node.this),))
            case exp.Boolean():
                return Literal(bool(node.this))
            case exp.Column() | exp.Dot():
                return self.column(node)
        if type(node) in _CONDITIONS:
            return Call(_CONDITIONS[type(node)], self._values(node.this, node.expression))
        raise self.rejected(node, "is not a condition")

    def _pattern(self, node: exp.Expr) -> Expression:
        if not isinstance(node, exp.Literal) or not node.is_string:
            raise self.rejected(
                node, "is not a pattern", hint="write the pattern of LIKE as text: LIKE 'Os%'"
            )
        pattern = str(node.this)
        if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
            raise self.rejected(
                node,
                "ends with a backslash",
                hint=r"a backslash escapes % and _; two of them are a backslash",
            )
        return Literal(pattern)

    # Values

    def _values(self, *nodes: exp.Expr) -> tuple[Expression, ...]:
        return tuple(self._value(each) for each in nodes)

    def _value(self, node: exp.Expr) -> Expression:
        self.enter(node)
        match node:
            case exp.Paren():
                return self._value(node.this)
            case exp.Column() | exp.Dot():
                return self.column(node)
            case exp.Literal():
                return Literal(str(node.this) if node.is_string else self.number(node))
            case exp.Boolean():
                return Literal(bool(node.this))
            case exp.HexString():
                return Literal(bytes.fromhex(str(node.this)))
            case exp.Null():
                raise self.rejected(node, "can't be compared", hint="write IS NULL or IS NOT NULL")
            case exp.Neg():
                inner = self._value(node.this)
                if isinstance(inner, Literal) and isinstance(inner.value, int | float | Decimal):
                    return Literal(-inner.value)
                return Call("negative", (inner,))
            case exp.Coalesce():
                return Call("coalesce", self._values(node.this, *node.expressions))
        if type(node) in _ARITHMETIC:
            return Call(_ARITHMETIC[type(node)], self._values(node.this, node.expression))
        if type(node) in _FUNCTIONS:
            return Call(_FUNCTIONS[type(node)], self._values(node.this))
        raise self.rejected(node, "is not possible here")

    def number(self, node: exp.Literal) -> int | float | Decimal:
        text = str(node.this)
        if not text.isdecimal():
            # A fraction is exact, as in the standard; one with an exponent is a floating-point number.
            number = float(text)
            if not math.isfinite(number):
                raise self.rejected(node, "is too large", hint=f"the largest number is {sys.float_info.max}")
            return number if "e" in text.lower() else Decimal(text)
        if int(text) > INTEGER_MAX + 1:  # with a minus in front of it, that is the smallest integer
            raise self.rejected(node, "is too large", hint=f"the largest integer is {INTEGER_MAX}")
        return int(text)

    def column(self, node: exp.Expr) -> Column:
        """A field, or the path of a nested one: order.amount."""
        path = self.path_of(node)
        if path is None:
            raise self.rejected(node, "is not a field")
        name = ".".join(path) if len(path) == 1 else ".".join(quoted(each) for each in path)
        self.columns[name] = path
        return Column(name)

    def path_of(self, node: exp.Expr) -> tuple[str, ...] | None:
        """The names of a column with what it is part of."""
        if not isinstance(node, exp.Column | exp.Dot):
            return None
        parts = node.parts
        return (
            tuple(each.name for each in parts) if all(isinstance(e, exp.Identifier) for e in parts) else None
        )

    # Errors

    def enter(self, node: exp.Expr) -> None:
        if any(value and name not in self.ARGUMENTS for name, value in node.args.items()):
            raise self.rejected(node, "is not possible here")
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise self.rejected(node, "is too long", hint=f"a condition has at most {NODES_MAX:,} parts")

    def rejected(self, node: exp.Expr, problem: str, *, hint: str = "") -> HeadraceError:
        place = _place(node)
        where = f" at character {place - len(self.PREFIX) + 1}" if place is not None else ""
        shown = node.sql(dialect=DIALECT, comments=False)
        if len(shown) > 60:
            shown = f"{shown[:57]}…"
        return self.ERROR(f"{shown}{where} {problem}", hint=hint or f"a {self.WHAT} has only {ALLOWED}")

    def _described(self, error: SqlglotError) -> str:
        found = getattr(error, "errors", None) or [{}]
        column = found[0].get("col")
        if column is None:
            return f"{self._text!r} is not a {self.WHAT}"
        place = max(0, column - len(self.PREFIX) - len(found[0].get("highlight") or "") + 1)
        rest = self._text[max(0, place - 1) :][:30]
        near = f"near {rest!r}" if rest.strip() else "its end"
        return f"{self._text!r} is not a {self.WHAT}: it can't be read at character {place}, {near}"


def _has_other_clauses(query: exp.Select, clauses: frozenset[str]) -> bool:
    table = query.args["from_"].this
    is_plain = isinstance(table, exp.Table) and not any(
        value for name, value in table.args.items() if name != "this"
    )
    return not is_plain or any(value and name not in clauses for name, value in query.args.items())


def _place(node: exp.Expr) -> int | None:
    """Where the node begins, as far as the parser remembers."""
    starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
    return min(starts) if starts else None
