"""The text of a selection, parsed: `WHERE city = 'Oslo' ORDER BY users DESC LIMIT 20`.

The text may come from anyone. `conditions.text` says what a condition may have; nothing else gets through.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from sqlglot import exp

from headrace.conditions.expression import Column, Expression, written
from headrace.conditions.text import ARGUMENTS, ConditionParser
from headrace.names import did_you_mean
from headrace.views.errors import BadView
from headrace.views.selection import PAGE_ROWS, ROWS_MAX, Selection

OFFSET_MAX = 100_000
"""Rows that a page skips. A store reads them all; the token of a page skips none."""


def parse(text: str, *, columns: Sequence[str], key: Sequence[str], limit: int = PAGE_ROWS) -> Selection:
    """The selection of a view with these columns; `limit` if the text has none."""
    parser = _SelectionParser(text, columns, key)
    return parser.checked(lambda query: parser.selection(query, limit))


@functools.lru_cache(maxsize=256)
def condition(where: str) -> Expression | None:
    """The tree of a condition that `parse` has checked."""
    parser = _SelectionParser(f"WHERE {where}", None, ())
    return parser.checked(parser.where) if where else None


class _SelectionParser(ConditionParser):
    PREFIX = "SELECT * FROM v "
    WHAT = "selection"
    HINT = (
        "only WHERE, ORDER BY, LIMIT and OFFSET are possible; "
        "it looks like: WHERE city = 'Oslo' AND users > 10 ORDER BY users DESC LIMIT 20"
    )
    CLAUSES = ConditionParser.CLAUSES | {"order", "limit", "offset"}
    ARGUMENTS = ARGUMENTS
    ERROR = BadView

    def __init__(self, text: str, columns: Sequence[str] | None, key: Sequence[str]) -> None:
        super().__init__(text)
        self._columns = columns
        self._key = key

    def selection(self, query: exp.Select, limit: int) -> Selection:
        tree = self.where(query)
        order, count, offset = (query.args.get(name) for name in ("order", "limit", "offset"))
        return Selection(
            where=written(tree) if tree is not None else "",
            order_by=tuple(self._order(order.expressions if order else ())),
            limit=self._rows(count, 1, ROWS_MAX) if count else limit,
            offset=self._rows(offset, 0, OFFSET_MAX) if offset else 0,
        )

    def where(self, query: exp.Select) -> Expression | None:
        where = query.args.get("where")
        return self.condition(where.this) if where else None

    def column(self, node: exp.Expr) -> Column:
        path = self.path_of(node)
        if path is None or len(path) > 1:
            raise self.rejected(node, "is not a column of the view")
        (name,) = path
        if self._columns is None or name in self._columns:
            return Column(name)
        same = [each for each in self._columns if each.lower() == name.lower()]
        if len(same) == 1 and not node.this.quoted:
            return Column(same[0])
        raise self.rejected(
            node,
            "is not a column of the view",
            hint=did_you_mean(name, self._columns) or f"its columns are {', '.join(self._columns)}",
        )

    def _order(self, nodes: Sequence[exp.Expr]) -> Iterator[tuple[str, bool]]:
        """With the key at its end."""
        seen = set()
        for node in nodes:
            self.enter(node)
            if not isinstance(node, exp.Ordered):
                raise self.rejected(node, "is not an order", hint="ORDER BY users DESC, city")
            name = self.column(node.this).name
            if name not in seen:
                seen.add(name)
                yield name, bool(node.args.get("desc"))
        for name in self._key:
            if name not in seen:
                yield name, False

    def _rows(self, node: exp.Expr, least: int, most: int) -> int:
        count = node.expression if isinstance(node, exp.Limit | exp.Offset) else None
        rows = self.number(count) if isinstance(count, exp.Literal) and not count.is_string else -1
        if not isinstance(rows, int) or not least <= rows <= most:
            raise self.rejected(node, "is not possible", hint=f"a number of rows from {least} to {most:,}")
        return rows
