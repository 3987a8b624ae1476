"""The text of a selection, parsed: `WHERE city = 'Oslo' ORDER BY users DESC LIMIT 20`.

The text may come from anyone. Only what is listed here gets through, and each value as a value: nothing of the text
reaches a database as it is.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headrace.names import did_you_mean
from headrace.views.errors import BadView
from headrace.views.query.expression import Call, Column, Expression, Literal, written
from headrace.views.selection import PAGE_ROWS, ROWS_MAX, Selection

TEXT_CHARS_MAX = 10_000
"""Of a selection: a list of a few hundred keys fits."""

NODES_MAX = 1_000
"""Values, columns and operators of a condition. SQLite rejects expressions that are nested deeper."""

INTEGER_MAX = 2**63 - 1

OFFSET_MAX = 100_000
"""Rows that a page skips. A store reads them all; the token of a page skips none."""

_PREFIX = "SELECT * FROM v "
_DIALECT = "trino"  # the dialect of sqlglot that is nearest to the standard: nulls last, no other quotes

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
_ARGUMENTS = {"this", "expression", "expressions", "low", "high", "is_string", "desc", "typed"}
_CLAUSES = {"kind", "expressions", "from_", "where", "order", "limit", "offset"}
_ALLOWED = (
    "comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, + - * / %, abs, coalesce, length, lower, upper"
)


def parse(text: str, *, columns: Sequence[str], key: Sequence[str], limit: int = PAGE_ROWS) -> Selection:
    """The selection of a view with these columns; `limit` if the text has none."""
    if len(text) > TEXT_CHARS_MAX or "\0" in text:
        raise BadView(
            f"a selection can't have {len(text):,} characters or the character NUL",
            hint=f"shorten it to {TEXT_CHARS_MAX:,} characters, or select on the side of the reader",
        )
    try:
        return _Parser(text, columns, key).selection(limit)
    except SqlglotError as error:
        raise BadView(f"{_described(error, text)}", hint=_HINT) from error
    except RecursionError as error:
        raise BadView("the selection is nested too deeply", hint="write it with fewer parentheses") from error


@functools.lru_cache(maxsize=256)
def condition(where: str) -> Expression | None:
    """The tree of a condition that `parse` has checked."""
    return _Parser(f"WHERE {where}", None, ()).tree() if where else None


_HINT = "it looks like: WHERE city = 'Oslo' AND users > 10 ORDER BY users DESC LIMIT 20"


def _described(error: SqlglotError, text: str) -> str:
    found = getattr(error, "errors", None) or [{}]
    column = found[0].get("col")
    if column is None:
        return f"{text!r} is not a selection"
    place = max(0, column - len(_PREFIX) - len(found[0].get("highlight") or "") + 1)
    return f"{text!r} is not a selection: it can't be read at character {place}, {_excerpt(text, place)}"


def _excerpt(text: str, place: int) -> str:
    rest = text[max(0, place - 1) :][:30]
    return f"near {rest!r}" if rest.strip() else "its end"


class _Parser:
    def __init__(self, text: str, columns: Sequence[str] | None, key: Sequence[str]) -> None:
        self._text = text
        self._columns = columns
        self._key = key
        self._nodes = 0

    def selection(self, limit: int) -> Selection:
        query = self._query()
        tree = self._where(query)
        order, count, offset = (query.args.get(name) for name in ("order", "limit", "offset"))
        return Selection(
            where=written(tree) if tree is not None else "",
            order_by=tuple(self._order(order.expressions if order else ())),
            limit=self._rows(count, 1, ROWS_MAX) if count else limit,
            offset=self._rows(offset, 0, OFFSET_MAX) if offset else 0,
        )

    def tree(self) -> Expression | None:
        return self._where(self._query())

    def _where(self, query: exp.Select) -> Expression | None:
        where = query.args.get("where")
        return self._condition(where.this) if where else None

    def _query(self) -> exp.Select:
        parsed = sqlglot.parse(_PREFIX + self._text, dialect=_DIALECT)
        query = parsed[0] if len(parsed) == 1 else None
        if not isinstance(query, exp.Select) or self._has_other_clauses(query):
            raise BadView(
                f"{self._text!r} is not a selection",
                hint=f"only WHERE, ORDER BY, LIMIT and OFFSET are possible; {_HINT}",
            )
        return query

    def _has_other_clauses(self, query: exp.Select) -> bool:
        table = query.args["from_"].this
        is_plain = isinstance(table, exp.Table) and not any(
            value for name, value in table.args.items() if name != "this"
        )
        return not is_plain or any(value and name not in _CLAUSES for name, value in query.args.items())

    # Conditions

    def _condition(self, node: exp.Expr) -> Expression:
        self._enter(node)
        match node:
            case exp.Paren():
                return self._condition(node.this)
            case exp.And() | exp.Or():
                name = "and" if isinstance(node, exp.And) else "or"
                return Call(name, tuple(self._condition(each) for each in node.flatten()))
            case exp.Not():
                return Call("not", (self._condition(node.this),))
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
            case exp.Column():
                return self._column(node)
        if type(node) in _CONDITIONS:
            return Call(_CONDITIONS[type(node)], self._values(node.this, node.expression))
        raise self._rejected(node, "is not a condition")

    def _pattern(self, node: exp.Expr) -> Expression:
        if not isinstance(node, exp.Literal) or not node.is_string:
            raise self._rejected(
                node, "is not a pattern", hint="write the pattern of LIKE as text: LIKE 'Os%'"
            )
        pattern = str(node.this)
        if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
            raise self._rejected(
                node,
                "ends with a backslash",
                hint=r"a backslash escapes % and _; two of them are a backslash",
            )
        return Literal(pattern)

    # Values

    def _values(self, *nodes: exp.Expr) -> tuple[Expression, ...]:
        return tuple(self._value(each) for each in nodes)

    def _value(self, node: exp.Expr) -> Expression:
        self._enter(node)
        match node:
            case exp.Paren():
                return self._value(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Literal():
                return Literal(str(node.this) if node.is_string else self._number(node))
            case exp.Boolean():
                return Literal(bool(node.this))
            case exp.HexString():
                return Literal(bytes.fromhex(str(node.this)))
            case exp.Null():
                raise self._rejected(node, "can't be compared", hint="write IS NULL or IS NOT NULL")
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
        raise self._rejected(node, "is not possible here")

    def _number(self, node: exp.Literal) -> int | float | Decimal:
        text = str(node.this)
        if not text.isdecimal():
            # A fraction is exact, as in the standard; one with an exponent is a floating-point number.
            number = float(text)
            if not math.isfinite(number):
                raise self._rejected(node, "is too large", hint=f"the largest number is {sys.float_info.max}")
            return number if "e" in text.lower() else Decimal(text)
        if int(text) > INTEGER_MAX + 1:  # with a minus in front of it, that is the smallest integer
            raise self._rejected(node, "is too large", hint=f"the largest integer is {INTEGER_MAX}")
        return int(text)

    def _column(self, node: exp.Expr) -> Column:
        if (
            not isinstance(node, exp.Column)
            or not isinstance(node.this, exp.Identifier)
            or len(node.parts) > 1
        ):
            raise self._rejected(node, "is not a column of the view")
        name = node.name
        if self._columns is None or name in self._columns:
            return Column(name)
        same = [each for each in self._columns if each.lower() == name.lower()]
        if len(same) == 1 and not node.this.quoted:
            return Column(same[0])
        raise self._rejected(
            node,
            "is not a column of the view",
            hint=did_you_mean(name, self._columns) or f"its columns are {', '.join(self._columns)}",
        )

    # Order and limit

    def _order(self, nodes: Sequence[exp.Expr]) -> Iterator[tuple[str, bool]]:
        """With the key at its end."""
        seen = set()
        for node in nodes:
            self._enter(node)
            if not isinstance(node, exp.Ordered):
                raise self._rejected(node, "is not an order", hint="ORDER BY users DESC, city")
            name = self._column(node.this).name
            if name not in seen:
                seen.add(name)
                yield name, bool(node.args.get("desc"))
        for name in self._key:
            if name not in seen:
                yield name, False

    def _rows(self, node: exp.Expr, least: int, most: int) -> int:
        count = node.expression if isinstance(node, exp.Limit | exp.Offset) else None
        rows = self._number(count) if isinstance(count, exp.Literal) and not count.is_string else -1
        if not isinstance(rows, int) or not least <= rows <= most:
            raise self._rejected(node, "is not possible", hint=f"a number of rows from {least} to {most:,}")
        return rows

    # Errors

    def _enter(self, node: exp.Expr) -> None:
        if any(value and name not in _ARGUMENTS for name, value in node.args.items()):
            raise self._rejected(node, "is not possible here")
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise self._rejected(node, "is too long", hint=f"a condition has at most {NODES_MAX:,} parts")

    def _rejected(self, node: exp.Expr, problem: str, *, hint: str = "") -> BadView:
        place = _place(node)
        where = f" at character {place - len(_PREFIX) + 1}" if place is not None else ""
        shown = node.sql(dialect=_DIALECT, comments=False)
        if len(shown) > 60:
            shown = f"{shown[:57]}…"
        return BadView(f"{shown}{where} {problem}", hint=hint or f"a selection has only {_ALLOWED}")


def _place(node: exp.Expr) -> int | None:
    """Where the node begins, as far as the parser remembers."""
    starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
    return min(starts) if starts else None
