"""Which column of the plan a name in the text means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct, field
from sqlglot import exp

from headrace.names import did_you_mean
from headrace.views.sql.dialect import SqlText, reference, sql_of
from headrace.views.sql.plan import Node, Scan


class Names:
    """The names of a plan's columns: readable, distinct whatever their case, and safe to use everywhere."""

    def __init__(self) -> None:
        self.shown: dict[str, str] = {}
        self._taken = {"op", "before"}

    def new(self, shown: str) -> str:
        stem = re.sub(r"[^a-z0-9]+", "_", shown.lower()).strip("_")[:40] or "c"
        if not stem[0].isalpha():
            stem = f"c_{stem}"
        name, number = stem, 1
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name)
        self.shown[name] = shown
        return name

    def text(self, expression: exp.Expr) -> str:
        """The expression as the user knows it: with the names of the text."""
        return sql_of(
            expression.copy().transform(
                lambda node: exp.Var(this=self.shown.get(node.name, node.name)) if _is_name(node) else node
            )
        )


class Field(Struct, frozen=True, kw_only=True):
    """A column of a relation: the name that the text uses, and the name in the plan."""

    shown: str
    name: str
    is_hidden: bool = False
    """not part of `*`"""


class Rank(Struct, frozen=True, kw_only=True):
    """A ROW_NUMBER() that no condition has bounded yet."""

    name: str
    by: tuple[str, ...]
    order: dict[str, str]


class Relation(Struct, frozen=True, kw_only=True):
    """What FROM can name. Each of `keys` is a set of columns that distinguish its rows."""

    node: Node
    fields: tuple[Field, ...]
    keys: tuple[frozenset[str], ...] = ()
    rank: Rank | None = None

    @property
    def columns(self) -> Iterator[Field]:
        return (each for each in self.fields if not each.is_hidden)


class Scope(Struct, kw_only=True):
    """The relations of one SELECT by their aliases."""

    text: SqlText
    relations: dict[str, Relation] = field(default_factory=dict)
    merged: dict[str, exp.Expr] = field(default_factory=dict)
    """what a name means that USING merged"""

    def add(self, alias: str, relation: Relation, at: exp.Expr) -> None:
        if alias.lower() in (each.lower() for each in self.relations):
            raise self.text.bad(
                at, f"two tables are called {alias}", hint="give one of them an alias: … AS other"
            )
        self.relations[alias] = relation

    def resolved(self, expression: exp.Expr) -> exp.Expr:
        """The expression on the columns of the plan."""
        return expression.copy().transform(lambda node: self._column(node) if _is_name(node) else node)

    def star(self, alias: str | None, at: exp.Expr) -> list[Field]:
        if alias is None:
            found = [each for relation in self.relations.values() for each in relation.columns]
        else:
            relation = self._relation(alias)
            if relation is None:
                raise self._unknown_table(alias, at)
            found = list(relation.columns)
        for each in found:
            self._use(each)
        return found

    def _column(self, node: exp.Column) -> exp.Expr:
        parts = [part.name for part in node.parts]
        if len(parts) == 1 and parts[0].lower() in self.merged:
            return self.merged[parts[0].lower()].copy()
        found, rest = self._find(parts, node)
        self._use(found)
        column: exp.Expr = reference(found.name)
        column.this.meta.update(node.this.meta)
        for name in rest:
            column = exp.Dot(this=column, expression=exp.Identifier(this=name, quoted=True))
        return column

    def _find(self, parts: Sequence[str], node: exp.Column) -> tuple[Field, Sequence[str]]:
        """The column, and the fields inside of it."""
        for count in range(len(parts) - 1, 0, -1):
            relation = self._relation(".".join(parts[:count]))
            if relation is not None:
                field = _named(relation.fields, parts[count])
                if field is None:
                    raise self._unknown(parts[count], node, relation.fields)
                return field, parts[count + 1 :]
        found = [
            (alias, field)
            for alias, relation in self.relations.items()
            if (field := _named(relation.fields, parts[0])) is not None
        ]
        if len(found) > 1:
            raise self.text.bad(
                node,
                f"column {parts[0]} is ambiguous: {' and '.join(alias for alias, _ in found)} have one",
                hint=f"write {found[0][0]}.{parts[0]}",
            )
        if not found:
            if len(parts) > 1:
                raise self._unknown_table(parts[0], node)
            every = [each for relation in self.relations.values() for each in relation.fields]
            raise self._unknown(parts[0], node, every)
        return found[0][1], parts[1:]

    def _relation(self, alias: str) -> Relation | None:
        for name, relation in self.relations.items():
            if name.lower() == alias.lower() or (
                isinstance(relation.node, Scan) and relation.node.topic.topic == alias
            ):
                return relation
        return None

    def _use(self, found: Field) -> None:
        for relation in self.relations.values():
            if isinstance(relation.node, Scan):
                for column, name in relation.node.names.items():
                    if name == found.name:
                        relation.node.used.add(column)

    def _unknown(self, name: str, node: exp.Column, fields: Sequence[Field]) -> Exception:
        known = [each.shown for each in fields if not each.is_hidden]
        hint = did_you_mean(name, known) or f"the columns are {', '.join(known)}"
        return self.text.bad(node, f"there is no column {sql_of(node)}", hint=hint)

    def _unknown_table(self, name: str, node: exp.Expr) -> Exception:
        known = list(self.relations)
        hint = did_you_mean(name, known) or f"the tables are {', '.join(known)}"
        return self.text.bad(node, f"there is no table {name} in FROM", hint=hint)


def _is_name(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and not isinstance(node.this, exp.Star)


def _named(fields: Sequence[Field], name: str) -> Field | None:
    """Exactly, or else whatever the case."""
    exact = [each for each in fields if each.shown == name]
    similar = exact or [each for each in fields if each.shown.lower() == name.lower()]
    return similar[0] if len(similar) >= 1 else None
