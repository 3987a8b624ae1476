"""The plan of a view, from its definition and the columns of its topics. Neither Spark nor a broker is needed."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.names import did_you_mean
from headrace.views.definition import Definition
from headrace.views.errors import BadView
from headrace.views.sql.dialect import SqlText, quoted
from headrace.views.sql.plan import Node, Plan, Project, Scan
from headrace.views.sql.query import query
from headrace.views.sql.relations import Builder
from headrace.views.sql.scope import Names, Relation
from headrace.views.topic_columns import TopicColumns


def parse(definition: Definition, columns: Mapping[str, TopicColumns]) -> Plan:
    """Raises `BadView` with the place in the text for what cannot be kept up to date, or does not exist."""
    if not definition.sql and len(definition.topics) != 1:
        raise BadView(
            f"view {definition.name} reads {len(definition.topics)} topics without SQL",
            hint="--sql 'SELECT … FROM … JOIN … ON …'",
        )
    sql = definition.sql or f"SELECT * FROM {quoted(definition.topics[0])}"
    text, names = SqlText(definition.name, sql), Names()
    for topic in columns.values():
        _check_keyed(definition, topic)
    builder = Builder(text=text, topics=columns, names=names, query=query)
    relation = query(builder, text.parsed())
    if relation.rank is not None:
        raise text.bad(
            None,
            f"no condition bounds {names.shown[relation.rank.name]}",
            hint="SELECT … FROM (SELECT …, ROW_NUMBER() OVER (…) AS n FROM …) AS t WHERE n <= N",
        )
    return _plan(definition, text, names, relation, columns)


def _check_keyed(definition: Definition, topic: TopicColumns) -> None:
    if topic.kind == "changes" and not topic.key:
        raise BadView(
            f"the records of topic {topic.topic} have no key, so changes of a row cannot be told from other rows",
            hint="give the table a primary key, and capture it again",
        )
    missing = [name for name in topic.key if name != "_key" and name not in [c.name for c in topic.columns]]
    if missing:
        raise BadView(
            f"topic {topic.topic} has the key {', '.join(topic.key)}, and no column {missing[0]}",
            hint="name it in the schema of the topic",
        )


def _plan(
    definition: Definition,
    text: SqlText,
    names: Names,
    relation: Relation,
    columns: Mapping[str, TopicColumns],
) -> Plan:
    result = {each.shown: each.name for each in relation.columns}
    _check_result(text, result)
    key = tuple(_key_column(definition, name, result) for name in definition.key)
    wanted = {result[name] for name in key}
    scan = _only_scan(relation.node)
    notes = [note for topic in columns.values() for note in topic.notes]
    is_unique = any(each <= wanted for each in relation.keys)
    is_stateless = scan is not None and _is_stateless(scan, relation, wanted)
    if not is_unique and not is_stateless:
        notes.append(
            f"the key ({', '.join(key)}) does not follow from the keys of the topics: if several rows have the same "
            "key, the view shows one of them"
        )
    elif not is_unique:
        notes.append(f"the view shows the last record of each key ({', '.join(key)})")
    return Plan(
        view=definition.name,
        root=relation.node,
        columns=result,
        key=key,
        is_stateless=is_stateless,
        is_unique=is_unique,
        shown=names.shown,
        notes=tuple(dict.fromkeys(notes)),
    )


def _check_result(text: SqlText, result: Mapping[str, str]) -> None:
    for name in result:
        if name == "op" or name.startswith("_"):
            raise text.bad(
                None,
                f"the result has a column {name}, a name that rows of a view use themselves",
                hint=f"rename it: {quoted(name)} AS {name.strip('_') or 'value'}_",
            )


def _key_column(definition: Definition, name: str, result: Mapping[str, str]) -> str:
    if name in result:
        return name
    hint = did_you_mean(name, result) or f"the columns are {', '.join(result)}"
    raise BadView(f"view {definition.name} has the key {name}, which is no column of its result", hint=hint)


def _only_scan(node: Node) -> Scan | None:
    """The topic, if the view only computes and filters its rows."""
    while isinstance(node, Project):
        node = node.input
    return node if isinstance(node, Scan) else None


def _is_stateless(scan: Scan, relation: Relation, key: set[str]) -> bool:
    if scan.topic.kind == "events":
        return True
    if any(scan.topic.column(name).may_be_unchanged for name in scan.used if name != "_key"):
        return False
    return frozenset(key) in relation.keys
