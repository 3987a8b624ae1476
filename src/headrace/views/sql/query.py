"""A query as a relation: SELECT with WHERE, GROUP BY, HAVING, DISTINCT and the first N rows; UNION; WITH."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from sqlglot import exp

from headrace.views.errors import BadView
from headrace.views.sql.dialect import conjuncts, quoted, reference, sql_of, together
from headrace.views.sql.first_rows import bounded_ranks, limited, ranked, with_rank
from headrace.views.sql.grouping import Grouping, has_aggregate
from headrace.views.sql.plan import Group, Node, Output, Project, Union
from headrace.views.sql.relations import Builder, Keys, from_clause
from headrace.views.sql.scope import Field, Relation, Scope

_CHANGING = (
    exp.Rand,
    exp.Randn,
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.CurrentUser,
    exp.Uuid,
)
_CHANGING_NAMES = {
    "now",
    "uuid",
    "rand",
    "random",
    "randn",
    "monotonically_increasing_id",
    "spark_partition_id",
}


_UNSUPPORTED = {
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "windows": "WINDOW",
    "pivots": "PIVOT",
    "offset": "OFFSET",
    "hint": "a hint",
}


def query(builder: Builder, node: exp.Expr) -> Relation:
    _check(builder, node)
    with_ = node.args.get("with_")
    if with_ is not None:
        named = {each.alias: each.this for each in with_.expressions}
        builder = replace(builder, named={**builder.named, **named})
    if isinstance(node, exp.Subquery):
        return query(builder, node.this)
    if isinstance(node, exp.Union):
        return _union(builder, node)
    if not isinstance(node, exp.Select):
        raise builder.text.bad(
            node,
            f"{type(node).__name__.upper()} cannot be kept up to date",
            hint="use SELECT, JOIN and UNION ALL",
        )
    return _select(builder, node)


def _check(builder: Builder, node: exp.Expr) -> None:
    """Raise for what no plan can contain, wherever it is."""
    for each in node.walk():
        name = each.name.lower() if isinstance(each, exp.Anonymous) else ""
        if isinstance(each, _CHANGING) or name in _CHANGING_NAMES:
            raise builder.text.bad(
                each,
                f"{sql_of(each)} has another value each time, so the view could not be kept up to date",
                hint="use a column of the topic; filter by the current time when you read the view",
            )
        if _is_subquery_of_expression(each):
            raise builder.text.bad(
                each, "a subquery outside of FROM cannot be kept up to date", hint="write it as a JOIN"
            )


def _is_subquery_of_expression(node: exp.Expr) -> bool:
    if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None):
        return True
    in_from = (exp.From, exp.Join, exp.Union, exp.CTE, exp.Subquery)
    return isinstance(node, exp.Subquery) and node.parent is not None and not isinstance(node.parent, in_from)


def _union(builder: Builder, node: exp.Union) -> Relation:
    if node.args.get("order") or node.args.get("limit"):
        raise builder.text.bad(node, "a UNION has no order and no limit here", hint="put it into a subquery")
    sides = [query(builder, side) for side in (node.this, node.expression)]
    columns = [list(side.columns) for side in sides]
    if len(columns[0]) != len(columns[1]):
        raise builder.text.bad(
            node,
            f"the sides of UNION have {len(columns[0])} and {len(columns[1])} columns",
            hint="select the same columns on both sides",
        )
    fields = tuple(Field(shown=each.shown, name=builder.names.new(each.shown)) for each in columns[0])
    inputs = tuple(
        Project(
            input=side.node,
            outputs=tuple(
                Output(name=field.name, sql=quoted(own.name), shown=own.shown)
                for field, own in zip(fields, of_side, strict=True)
            ),
        )
        for side, of_side in zip(sides, columns, strict=True)
    )
    relation = Relation(node=Union(inputs=inputs, columns=tuple(each.name for each in fields)), fields=fields)
    return _distinct(relation) if node.args.get("distinct") else relation


def _select(builder: Builder, select: exp.Select) -> Relation:
    text = builder.text
    for name, word in _UNSUPPORTED.items():
        if select.args.get(name):
            raise text.bad(select, f"{word} is not supported", hint="leave it out")
    scope, node, keys = from_clause(builder, select)
    node, conditions = bounded_ranks(builder, scope, node, conjuncts(_this(select, "where")))
    items = _items(builder, scope, select)
    where = _condition(builder, [scope.resolved(each) for each in conditions])
    is_grouped = bool(select.args.get("group") or select.args.get("having")) or any(
        has_aggregate(expression) for _, expression in items
    )
    if is_grouped:
        relation = _grouped(builder, scope, select, items, node, where)
    else:
        relation = _projected(builder, items, node, where, keys)
    if select.args.get("distinct"):
        if select.args["distinct"].args.get("on"):
            raise text.bad(select, "DISTINCT ON is not supported", hint="QUALIFY ROW_NUMBER() OVER (…) = 1")
        relation = _distinct(relation)
    return limited(builder, select, relation)


def _this(select: exp.Select, name: str) -> exp.Expr | None:
    clause = select.args.get(name)
    return clause.this if clause is not None else None


def _condition(builder: Builder, conditions: list[exp.Expr]) -> Output | None:
    found = together(conditions)
    if found is None:
        return None
    return Output(name=builder.names.new("condition"), sql=sql_of(found), shown=builder.names.text(found))


def _items(builder: Builder, scope: Scope, select: exp.Select) -> list[tuple[str, exp.Expr]]:
    """The names and the expressions of the result, on the columns of the plan."""
    found: list[tuple[str, exp.Expr]] = []
    for number, item in enumerate(select.expressions, start=1):
        expression = item.unalias()
        is_star = isinstance(expression, exp.Star)
        if is_star or (isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star)):
            if (expression if is_star else expression.this).args.get("except_"):
                raise builder.text.bad(item, "* EXCEPT is not supported", hint="name the columns")
            alias = None if is_star else ".".join(part.name for part in expression.parts[:-1])
            found += [(each.shown, reference(each.name)) for each in scope.star(alias, item)]
        else:
            name = item.alias or (expression.name if isinstance(expression, (exp.Column, exp.Dot)) else "")
            found.append((name or f"column{number}", scope.resolved(expression)))
    _check_names(builder, found, select)
    return found


def _check_names(builder: Builder, items: Sequence[tuple[str, exp.Expr]], at: exp.Expr) -> None:
    seen: set[str] = set()
    for name, _ in items:
        if name.lower() in seen:
            raise builder.text.bad(
                None, f"the result has two columns {name}", hint=f"name one of them: … AS other_{name}"
            )
        seen.add(name.lower())


def _projected(
    builder: Builder,
    items: Sequence[tuple[str, exp.Expr]],
    node: Node,
    where: Output | None,
    keys: Keys,
) -> Relation:
    items, rank = with_rank(builder, items)
    fields, outputs = _outputs(builder, items)
    sources: dict[str, str] = {}
    for output, (_, expression) in zip(outputs, items, strict=True):
        origin = _origin(expression)
        if origin is not None:
            sources.setdefault(origin, output.name)
    kept = tuple(frozenset(sources[each] for each in key) for key in keys if key <= set(sources))
    if rank is not None:
        return ranked(builder, node, where, fields, outputs, kept, rank)
    return Relation(node=Project(input=node, outputs=outputs, where=where), fields=fields, keys=kept)


def _outputs(
    builder: Builder, items: Sequence[tuple[str, exp.Expr]]
) -> tuple[tuple[Field, ...], tuple[Output, ...]]:
    fields, outputs = [], []
    for shown, expression in items:
        name = builder.names.new(shown)
        fields.append(Field(shown=shown, name=name))
        outputs.append(Output(name=name, sql=sql_of(expression), shown=builder.names.text(expression)))
    return tuple(fields), tuple(outputs)


def _origin(expression: exp.Expr) -> str | None:
    """The column that an expression is, or is where it is not null."""
    expression = expression.unnest()
    if isinstance(expression, exp.Column):
        return expression.name
    if isinstance(expression, exp.Coalesce) and all(
        isinstance(each, exp.Literal) for each in expression.expressions
    ):
        return _origin(expression.this)
    return None


# Groups


def _grouped(
    builder: Builder,
    scope: Scope,
    select: exp.Select,
    items: Sequence[tuple[str, exp.Expr]],
    node: Node,
    where: Output | None,
) -> Relation:
    by = _by(builder, scope, select, items)
    grouping = Grouping(text=builder.text, names=builder.names, by=by)
    results = [(name, grouping.after(expression)) for name, expression in items]
    aliases = dict(items)
    having = [
        grouping.after(_with_aliases(scope, each, aliases)) for each in conjuncts(_this(select, "having"))
    ]
    group = grouping.nodes(node, where)
    keys = (frozenset(grouping.keys),)
    return _projected(builder, results, group, _condition(builder, having), keys)


def _by(
    builder: Builder, scope: Scope, select: exp.Select, items: Sequence[tuple[str, exp.Expr]]
) -> list[exp.Expr]:
    group = select.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        return [expression for _, expression in items if not has_aggregate(expression)]
    several = group.find(exp.Rollup, exp.Cube, exp.GroupingSets)
    if several is not None:
        raise builder.text.bad(
            several, f"{sql_of(several)} is not supported", hint="UNION ALL of several GROUP BY"
        )
    found = []
    for each in group.expressions:
        if isinstance(each, exp.Literal) and not each.is_string:
            number = int(each.name)
            if not 1 <= number <= len(items):
                raise builder.text.bad(
                    select, f"GROUP BY {number} is no column of the result", hint=f"there are {len(items)}"
                )
            found.append(items[number - 1][1])
        else:
            found.append(_with_aliases(scope, each, dict(items)))
    for each in found:
        if has_aggregate(each):
            raise builder.text.bad(each, "GROUP BY has an aggregate", hint="group by columns")
    return found


def _with_aliases(scope: Scope, expression: exp.Expr, aliases: dict[str, exp.Expr]) -> exp.Expr:
    """Columns of the topics come first, names of results second, as in Spark."""
    if isinstance(expression, exp.Column) and len(expression.parts) == 1 and expression.name in aliases:
        try:
            return scope.resolved(expression)
        except BadView:
            return aliases[expression.name].copy()
    changed = expression.copy()
    for column in list(changed.find_all(exp.Column)):
        if len(column.parts) == 1 and column.name in aliases:
            try:
                scope.resolved(column)
            except BadView:
                column.replace(exp.Paren(this=_Resolved.mark(aliases[column.name].copy())))
    return _Resolved.resolve(scope, changed)


class _Resolved:
    """Parts of an expression that are resolved already."""

    @staticmethod
    def mark(expression: exp.Expr) -> exp.Expr:
        for column in expression.find_all(exp.Column):
            column.meta["resolved"] = True
        return expression

    @staticmethod
    def resolve(scope: Scope, expression: exp.Expr) -> exp.Expr:
        return expression.transform(
            lambda node: (
                scope.resolved(node)
                if isinstance(node, exp.Column) and not node.meta.get("resolved")
                else node
            )
        )


def _distinct(relation: Relation) -> Relation:
    by = tuple(each.name for each in relation.columns)
    return replace(relation, node=Group(input=relation.node, by=by, aggregates={}), keys=(frozenset(by),))
