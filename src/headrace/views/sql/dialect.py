"""Spark's SQL, in which names may also be in double quotes, as in PostgreSQL; and where a part of it is in the text."""

from __future__ import annotations

from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError

from headrace.views.errors import BadView

TEXT_LENGTH_MAX = 100_000
"""A statement that people write is shorter, and the parser recurses."""


class ViewSql(Spark):
    class Tokenizer(Spark.Tokenizer):
        IDENTIFIERS: ClassVar = ["`", '"']
        QUOTES: ClassVar = ["'"]


class SqlText:
    """The text of a view, for messages with a place."""

    def __init__(self, view: str, text: str) -> None:
        self.view = view
        self.text = text

    def parsed(self) -> exp.Expr:
        if len(self.text) > TEXT_LENGTH_MAX:
            raise BadView(
                f"the SQL of view {self.view} has {len(self.text):,} characters",
                hint=f"at most {TEXT_LENGTH_MAX:,} are possible",
            )
        try:
            found = sqlglot.parse(self.text, dialect=ViewSql)
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            place = f" at line {first['line']}, column {first['col']}" if first.get("line") else ""
            problem = str(first.get("description") or error).splitlines()[0].rstrip(".")
            raise BadView(
                f"the SQL of view {self.view} cannot be parsed{place}: {problem}", hint="write one SELECT"
            ) from error
        except SqlglotError as error:
            raise BadView(
                f"the SQL of view {self.view} cannot be read: {error}", hint="write one SELECT"
            ) from error
        statements = [each for each in found if each is not None]
        if len(statements) != 1 or not isinstance(statements[0], exp.Query):
            raise BadView(f"the SQL of view {self.view} is not one SELECT", hint="SELECT … FROM TOPIC …")
        return statements[0]

    def bad(self, node: exp.Expr | None, problem: str, *, hint: str) -> BadView:
        """An error at the place of this part."""
        place = "" if node is None else self.place(node)
        return BadView(f"view {self.view}{place}: {problem}", hint=hint)

    def place(self, node: exp.Expr) -> str:
        starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
        if not starts:
            return ""
        before = self.text[: min(starts)]
        line = before.count("\n") + 1
        return f", line {line}, column {len(before) - (before.rfind(chr(10)) + 1) + 1}"

    def shown(self, node: exp.Expr) -> str:
        return sql_of(node)


def sql_of(node: exp.Expr) -> str:
    return node.sql(dialect=Spark, comments=False)


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def reference(name: str) -> exp.Column:
    """A column of the plan."""
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND combines."""
    if condition is None:
        return []
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        return [*conjuncts(condition.this), *conjuncts(condition.expression)]
    return [condition]


def together(conditions: list[exp.Expr]) -> exp.Expr | None:
    return exp.and_(*conditions, copy=True) if conditions else None
