"""FROM and JOIN: topics, subqueries and their joins as one relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from msgspec import Struct, field
from sqlglot import exp

from headrace.names import did_you_mean
from headrace.views.sql.dialect import SqlText, conjuncts, sql_of, together
from headrace.views.sql.plan import How, Join, Node, Output, Project, Scan
from headrace.views.sql.scope import Field, Names, Relation, Scope
from headrace.views.topic_columns import KEY, TopicColumns

Keys = tuple[frozenset[str], ...]
"""Sets of columns that distinguish rows."""

HIDDEN = (KEY, "_timestamp", "_partition", "_offset")
"""What every record of a topic of events has besides its value."""


class Builder(Struct, kw_only=True):
    """What the parts of one view's SQL share."""

    text: SqlText
    topics: Mapping[str, TopicColumns]
    names: Names
    query: Callable[[Builder, exp.Expr], Relation]
    """of a subquery"""
    named: dict[str, exp.Expr] = field(default_factory=dict)
    """queries of WITH"""


def from_clause(builder: Builder, select: exp.Select) -> tuple[Scope, Node, Keys]:
    """The scope of a SELECT, the joined rows, and what distinguishes them."""
    text = builder.text
    source = select.args.get("from_")
    if source is None:
        raise text.bad(select, "it reads no topic", hint="SELECT … FROM TOPIC")
    if select.args.get("laterals"):
        raise text.bad(select.args["laterals"][0], "LATERAL VIEW is not supported", hint="leave it out")
    scope = Scope(text=text)
    alias, first = _relation(builder, source.this)
    scope.add(alias, first, source.this)
    node, keys = first.node, first.keys
    for join in select.args.get("joins") or ():
        node, keys = _joined(builder, scope, node, keys, join)
    return scope, node, keys


def _relation(builder: Builder, source: exp.Expr) -> tuple[str, Relation]:
    text = builder.text
    if isinstance(source, exp.Subquery):
        if not source.alias:
            raise text.bad(source, "a subquery in FROM has no name", hint="(SELECT …) AS name")
        return source.alias, builder.query(builder, source.this)
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        raise text.bad(source, f"{sql_of(source)} is not a topic", hint="FROM names topics of the view")
    full = ".".join(part.name for part in source.parts)
    if full in builder.named:
        return source.alias or full, builder.query(builder, builder.named[full])
    topic = _topic(builder, full, source)
    return source.alias or full.rpartition(".")[2], _scanned(builder, topic, source.alias or full)


def _topic(builder: Builder, name: str, at: exp.Expr) -> TopicColumns:
    if name in builder.topics:
        return builder.topics[name]
    found = [topic for topic in builder.topics if topic.rpartition(".")[2].lower() == name.lower()]
    found = found or [topic for topic in builder.topics if topic.lower().endswith(f".{name.lower()}")]
    if len(found) > 1:
        raise builder.text.bad(
            at, f"table {name} is ambiguous: {' and '.join(found)}", hint=f'write "{found[0]}"'
        )
    if not found:
        known = [topic.rpartition(".")[2] for topic in builder.topics]
        raise builder.text.bad(
            at,
            f"there is no table {name} among the topics of the view",
            hint=did_you_mean(name, [*known, *builder.topics]) or f"--from has {', '.join(builder.topics)}",
        )
    return builder.topics[found[0]]


def _scanned(builder: Builder, topic: TopicColumns, alias: str) -> Relation:
    stem = alias.rpartition(".")[2]
    columns = [each.name for each in topic.columns]
    hidden = [name for name in (HIDDEN if topic.kind == "events" else (KEY,)) if name not in columns]
    names = {name: builder.names.new(f"{stem}.{name}") for name in [*columns, *hidden]}
    for name in (*columns, *hidden):
        builder.names.shown[names[name]] = name
    fields = tuple(Field(shown=name, name=names[name], is_hidden=name in hidden) for name in names)
    scan = Scan(topic=topic, names=names, used=set(topic.key))
    key = scan.key if topic.kind != "events" else (names["_partition"], names["_offset"])
    return Relation(node=scan, fields=fields, keys=(frozenset(key),) if key else ())


def _joined(builder: Builder, scope: Scope, left: Node, keys: Keys, join: exp.Join) -> tuple[Node, Keys]:
    text = builder.text
    alias, other = _relation(builder, join.this)
    before = dict(scope.relations)
    scope.add(alias, other, join.this)
    side = str(join.args.get("side") or "").upper()
    kind = str(join.args.get("kind") or "").upper()
    if kind not in ("", "INNER", "OUTER") or join.args.get("method"):
        raise text.bad(
            join.this,
            f"{kind or join.args.get('method')} JOIN cannot be kept up to date",
            hint="use JOIN, LEFT JOIN or FULL JOIN with ON a.x = b.y",
        )
    pairs, rest = _conditions(builder, scope, before, other, join)
    if not pairs:
        raise text.bad(
            join.this,
            "the join has no equality between a column of each side, so every change would touch every row",
            hint="ON a.x = b.y AND …",
        )
    node = other.node
    rest_left: list[exp.Expr] = []
    own = {each.name for each in other.fields}
    for condition in rest:
        used = {column.name for column in condition.find_all(exp.Column)}
        if used <= own and side in ("", "LEFT"):
            node = _filtered(node, condition, builder.names)
        elif side == "":
            rest_left.append(condition)
        else:
            raise text.bad(
                join.this,
                f"the condition {builder.names.text(condition)} of a {side} JOIN is not an equality of both sides",
                hint="put it into WHERE, or into a subquery",
            )
    return _join_nodes(builder, left, node, side, pairs, rest_left, join, keys=(keys, other.keys))


def _join_nodes(
    builder: Builder,
    left: Node,
    right: Node,
    side: str,
    pairs: list[tuple[exp.Expr, exp.Expr]],
    rest: list[exp.Expr],
    join: exp.Join,
    *,
    keys: tuple[Keys, Keys],
) -> tuple[Node, Keys]:
    left_names, left = _computed(builder, left, [one for one, _ in pairs])
    right_names, right = _computed(builder, right, [two for _, two in pairs])
    how: How = cast(How, {"": "inner", "LEFT": "left", "RIGHT": "left", "FULL": "full"}[side])
    columns = tuple(zip(left_names, right_names, strict=True))
    shown = sql_of(join)
    if side == "RIGHT":
        node: Node = Join(
            left=right, right=left, how=how, pairs=tuple((b, a) for a, b in columns), shown=shown
        )
    else:
        node = Join(left=left, right=right, how=how, pairs=columns, shown=shown)
    condition = together(rest)
    if condition is not None:
        node = _filtered(node, condition, builder.names)
    return node, _keys(*keys, columns, side)


def _keys(
    left: Keys,
    right: Keys,
    pairs: tuple[tuple[str, str], ...],
    side: str,
) -> Keys:
    """What distinguishes the joined rows. A side that is found by its whole key adds at most one row to the other."""
    on_left, on_right = {one for one, _ in pairs}, {two for _, two in pairs}
    found = {one | other for one in left for other in right}
    if side in ("", "LEFT") and any(key <= on_right for key in right):
        found |= set(left)
    if side in ("", "RIGHT") and any(key <= on_left for key in left):
        found |= set(right)
    return tuple(sorted(found, key=lambda key: (len(key), sorted(key))))


def _conditions(
    builder: Builder,
    scope: Scope,
    before: Mapping[str, Relation],
    other: Relation,
    join: exp.Join,
) -> tuple[list[tuple[exp.Expr, exp.Expr]], list[exp.Expr]]:
    """Pairs of equal expressions, of the relations before and of the other one; and the remaining conditions."""
    left = {each.name for relation in before.values() for each in relation.fields}
    right = {each.name for each in other.fields}
    using = join.args.get("using")
    if using:
        return _using(scope, before, other, join), []
    pairs, rest = [], []
    for condition in conjuncts(join.args.get("on")):
        resolved = scope.resolved(condition)
        if isinstance(resolved, exp.EQ):
            sides = [resolved.this, resolved.expression]
            used = [{column.name for column in each.find_all(exp.Column)} for each in sides]
            if used[0] and used[1] and used[0] <= left and used[1] <= right:
                pairs.append((sides[0], sides[1]))
                continue
            if used[0] and used[1] and used[1] <= left and used[0] <= right:
                pairs.append((sides[1], sides[0]))
                continue
        rest.append(resolved)
    return pairs, rest


def _using(
    scope: Scope, before: Mapping[str, Relation], other: Relation, join: exp.Join
) -> list[tuple[exp.Expr, exp.Expr]]:
    pairs = []
    one_side = Scope(text=scope.text, relations=dict(before), merged=dict(scope.merged))
    other_side = Scope(text=scope.text, relations={"": other})
    for name in join.args["using"]:
        column = exp.Column(this=name.copy() if isinstance(name, exp.Identifier) else name.this.copy())
        mine, its = one_side.resolved(column), other_side.resolved(column)
        side = str(join.args.get("side") or "").upper()
        merged = {"FULL": exp.Coalesce(this=mine.copy(), expressions=[its.copy()]), "RIGHT": its}
        scope.merged[column.name.lower()] = merged.get(side, mine).copy()
        pairs.append((mine, its))
    return pairs


def _computed(builder: Builder, node: Node, expressions: list[exp.Expr]) -> tuple[list[str], Node]:
    """The names of these columns, which are computed where they are not columns yet."""
    outputs, names = [], []
    for each in expressions:
        if isinstance(each, exp.Column):
            names.append(each.name)
        else:
            shown = builder.names.text(each)
            name = builder.names.new(shown)
            outputs.append(Output(name=name, sql=sql_of(each), shown=shown))
            names.append(name)
    return names, Project(input=node, outputs=(KEEP, *outputs)) if outputs else node


def _filtered(node: Node, condition: exp.Expr, names: Names) -> Node:
    where = Output(name=names.new("condition"), sql=sql_of(condition), shown=names.text(condition))
    return Project(input=node, outputs=(KEEP,), where=where)


KEEP = Output(name="*", sql="*", shown="*")
"""All columns of the input."""
