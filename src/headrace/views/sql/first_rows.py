"""The first rows: ROW_NUMBER() with a condition on it, and ORDER BY with LIMIT."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from sqlglot import exp

from headrace.views.sql.dialect import sql_of
from headrace.views.sql.plan import Node, Output, Project, Top
from headrace.views.sql.relations import KEEP, Builder
from headrace.views.sql.scope import Field, Rank, Relation, Scope

TOP_MAX = 1_000_000
"""Of `Newest`, which keeps them."""


def with_rank(
    builder: Builder, items: Sequence[tuple[str, exp.Expr]]
) -> tuple[list[tuple[str, exp.Expr]], tuple[str, exp.Window] | None]:
    """The items without ROW_NUMBER(), and that one."""
    kept, rank = [], None
    for name, expression in items:
        window = next(expression.find_all(exp.Window), None)
        if window is None:
            kept.append((name, expression))
        elif rank is None and expression is window and isinstance(window.this, exp.RowNumber):
            rank = (name, window)
        else:
            raise builder.text.bad(
                window,
                f"{builder.names.text(window)} cannot be kept up to date",
                hint="possible is ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) AS n in a subquery, with WHERE n <= N",
            )
    return kept, rank


def ranked(
    builder: Builder,
    node: Node,
    where: Output | None,
    fields: tuple[Field, ...],
    outputs: tuple[Output, ...],
    keys: tuple[frozenset[str], ...],
    rank: tuple[str, exp.Window],
) -> Relation:
    shown, window = rank
    order = window.args.get("order")
    if order is None:
        raise builder.text.bad(window, "ROW_NUMBER() has no order", hint="OVER (PARTITION BY … ORDER BY …)")
    by, more = _sorted_by(builder, window.args.get("partition_by") or ())
    terms, others = _sorted_by(builder, [each.this for each in order.expressions])
    directions = {name: _direction(each) for name, each in zip(terms, order.expressions, strict=True)}
    name = builder.names.new(shown)
    project = Project(input=node, outputs=(*outputs, *more, *others), where=where)
    return Relation(
        node=project,
        fields=(*fields, Field(shown=shown, name=name)),
        keys=(*keys, frozenset({*by, name})),
        rank=Rank(name=name, by=tuple(by), order=directions),
    )


def _sorted_by(builder: Builder, expressions: Sequence[exp.Expr]) -> tuple[list[str], list[Output]]:
    outputs = []
    for each in expressions:
        name = builder.names.new(builder.names.text(each))
        outputs.append(Output(name=name, sql=sql_of(each), shown=builder.names.text(each)))
    return [each.name for each in outputs], outputs


def _direction(term: exp.Expr) -> str:
    way = "desc" if term.args.get("desc") else "asc"
    return f"{way} nulls {'first' if term.args.get('nulls_first') else 'last'}"


def bounded_ranks(
    builder: Builder, scope: Scope, node: Node, conditions: list[exp.Expr]
) -> tuple[Node, list[exp.Expr]]:
    """The first rows of each key, where a condition bounds the number of a row; and the other conditions."""
    ranks = [relation.rank for relation in scope.relations.values() if relation.rank is not None]
    if not ranks:
        return node, conditions
    (rank,) = ranks[:1]
    if len(scope.relations) > 1:
        raise builder.text.bad(
            None,
            "a subquery with ROW_NUMBER() is joined",
            hint="bound it in a subquery of its own: WHERE row_number <= N",
        )
    for condition in conditions:
        count = _bound(scope.resolved(condition), rank.name)
        if count is not None and 1 <= count <= TOP_MAX:
            top = Top(input=node, count=count, by=rank.by, order=rank.order, rank=rank.name)
            return top, conditions
    shown = builder.names.shown[rank.name]
    raise builder.text.bad(
        None,
        f"no condition bounds {shown}",
        hint=f"WHERE {shown} <= N; the rows of a key are unbounded otherwise",
    )


def _bound(condition: exp.Expr, name: str) -> int | None:
    """N of name <= N."""
    if isinstance(condition, (exp.LTE, exp.LT, exp.EQ)):
        left, right = condition.this, condition.expression
        if isinstance(left, exp.Column) and left.name == name and right.is_int:
            return int(right.name) - isinstance(condition, exp.LT)
    return None


def limited(builder: Builder, select: exp.Select, relation: Relation) -> Relation:
    """QUALIFY, or ORDER BY with LIMIT."""
    text = builder.text
    scope = Scope(text=text, relations={"": relation})
    order, limit = select.args.get("order"), select.args.get("limit")
    if select.args.get("qualify"):
        raise text.bad(
            select.args["qualify"].this,
            "QUALIFY is not supported",
            hint="SELECT … FROM (SELECT *, ROW_NUMBER() OVER (…) AS n FROM …) AS t WHERE n <= N",
        )
    if order is None:
        if limit is None:
            return relation
        raise text.bad(limit.expression, "LIMIT without ORDER BY would show any rows", hint="add ORDER BY")
    if limit is None:
        raise text.bad(
            order.expressions[0],
            "a view has no order",
            hint="leave ORDER BY out, and order the rows when you read them",
        )
    if not limit.expression.is_int or not 1 <= int(limit.expression.name) <= TOP_MAX:
        raise text.bad(
            limit.expression, f"LIMIT {sql_of(limit.expression)} is no number", hint=f"1 to {TOP_MAX}"
        )
    terms, outputs = _sorted_by(builder, [scope.resolved(each.this) for each in order.expressions])
    directions = {name: _direction(each) for name, each in zip(terms, order.expressions, strict=True)}
    sorted_ = Project(input=relation.node, outputs=(KEEP, *outputs))
    top = Top(input=sorted_, count=int(limit.expression.name), by=(), order=directions)
    return replace(relation, node=top)
