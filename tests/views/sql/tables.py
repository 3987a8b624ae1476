"""Topics of a shop, for tests of plans: no broker and no Spark."""

from __future__ import annotations

from headrace.views.definition import Definition
from headrace.views.sql import Plan, parse
from headrace.views.topic_columns import Column, Kind, TopicColumns
from headrace.views.value_forms import plain


def table(topic: str, key: str, columns: str, kind: Kind = "changes") -> TopicColumns:
    pairs = [each.rpartition(" ") for each in columns.split(", ")]
    return TopicColumns(
        topic=topic,
        kind=kind,
        columns=tuple(Column(name=name, form=plain(form)) for name, _, form in pairs),
        key=tuple(key.split()),
    )


TOPICS = {
    each.topic: each
    for each in (
        table("shop.public.users", "id", "id BIGINT, name STRING, city STRING, address STRING"),
        table("shop.public.orders", "id", "id BIGINT, user_id BIGINT, amount BIGINT"),
        table("shop.public.items", "order_id line", "order_id BIGINT, line INT, price DOUBLE"),
        table("crm.Ünïcode", "key", "key BIGINT, a.b STRING, Größe INT"),
        table("clicks", "", "user STRING, url STRING", kind="events"),
    )
}


def plan_of(sql: str, *key: str, topics: dict[str, TopicColumns] = TOPICS) -> Plan:
    definition = Definition(name="tested", topics=tuple(topics), key=key or ("id",), sql=sql)
    return parse(definition, topics)
