"""Topics as changelogs: what Debezium writes, values that an update lacks, tables of plain JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession

from headrace.cdc.change import UNAVAILABLE
from headrace.kafka.cluster import Cluster
from headrace.views.definition import Definition
from headrace.views.sql import rows_of
from tests.views.sql.shop import Record, Shown, topic_with


def shown(
    spark: SparkSession, cluster: Cluster, topic: str, columns: str, key: str, schema: str = ""
) -> Shown:
    definition = Definition(
        name="tested",
        topics=(topic,),
        key=(key,),
        sql=f'SELECT {columns} FROM "{topic}"',
        schemas={topic: schema} if schema else {},
    )
    found = Shown(definition.key)
    found.apply(rows_of(definition, spark, cluster, bounded=True).toArrow())
    return found


def debezium_schema(fields: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """As Kafka Connect's JSON converter writes it for Debezium."""
    row = {"type": "struct", "optional": True, "fields": list(fields)}
    return {
        "type": "struct",
        "name": "shop.public.t.Envelope",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            {"type": "struct", "field": "source", "fields": []},
            {"type": "string", "field": "op"},
        ],
    }


def test_topic_of_debezium_with_schemas_and_tombstones_is_a_table_with_the_databases_types(
    spark: SparkSession, bootstrap: str
) -> None:
    fields: list[dict[str, Any]] = [
        {"field": "id", "type": "int32", "optional": False},
        {"field": "born", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "seen", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        {
            "field": "balance",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        },
        {"field": "tags", "type": "array", "items": {"type": "string", "optional": True}},
    ]

    def record(op: str, before: Any, after: Any) -> Record:
        source = {"connector": "mysql", "version": "3.3", "snapshot": "false"}
        payload = {
            "before": before,
            "after": after,
            "source": source,
            "op": op,
            "ts_ms": 1,
            "transaction": None,
        }
        id = (after or before)["id"]
        key = {"schema": {"type": "struct", "fields": [fields[0]]}, "payload": {"id": id}}
        return key, {"schema": debezium_schema(fields), "payload": payload}

    def row(id: int, tags: list[str] | None = None) -> dict[str, Any]:
        return {"id": id, "born": 20_000, "seen": 1_000_000, "balance": "ME0=", "tags": tags}

    deleted = record("d", row(2), None)
    cluster, topic = topic_with(
        bootstrap,
        [
            record("r", None, row(1)),
            record("c", None, row(2)),
            record("u", row(1), row(1, ["a", "b"])),
            deleted,
            (deleted[0], None),
            record("c", None, row(3)),
            (record("c", None, row(3))[0], None),  # compacted: the event of the delete is gone
        ],
    )
    found = shown(spark, cluster, topic, "*", "id")
    assert found.rows == [
        (1, date(2024, 10, 4), datetime.fromisoformat("1970-01-01T00:00:01"), Decimal("123.65"), ["a", "b"])
    ]


def test_value_that_an_update_lacks_is_the_one_before(spark: SparkSession, bootstrap: str) -> None:
    def change(id: int, op: str, body: Any, n: int) -> Record:
        after = {"id": id, "body": body, "n": n}
        return {"id": id}, {"before": None, "after": after, "op": op, "source": {"connector": "postgresql"}}

    cluster, topic = topic_with(
        bootstrap,
        [
            change(1, "c", "long", 1),
            change(2, "c", "text", 1),
            change(1, "u", UNAVAILABLE, 2),
            change(1, "u", UNAVAILABLE, 3),
            change(2, "u", None, 2),
            change(2, "u", UNAVAILABLE, 3),
            change(3, "u", UNAVAILABLE, 1),
        ],
    )
    found = shown(spark, cluster, topic, "id, body, n", "id")
    assert found.rows == [(1, "long", 3), (2, None, 3), (3, None, 1)]


def test_value_that_does_not_have_the_given_type_is_a_dead_letter_and_no_row(
    spark: SparkSession, bootstrap: str
) -> None:
    def change(op: str, total: str) -> Record:
        return {"id": 1}, {"before": None, "after": {"id": 1, "total": total}, "op": op}

    cluster, topic = topic_with(
        bootstrap,
        [change("c", "1.50"), change("u", "NaN"), ({"id": 2}, {"after": {"id": 2, "total": "2"}, "op": "c"})],
    )
    found = shown(spark, cluster, topic, "id, total", "id", schema="id INT, total DECIMAL(10,2)")
    assert found.rows == [(2, Decimal("2.00"))]
    assert [(each.row, each.reason[:12]) for each in found.failed] == [
        ({"id": 1, "total": "NaN"}, "column total")
    ]


def test_compacted_json_is_a_table_by_its_record_key(spark: SparkSession, bootstrap: str) -> None:
    records: list[Record] = [
        ("ann", {"user": "ann", "visits": 1}),
        ("bob", {"user": "bob", "visits": 1}),
        ("ann", {"user": "ann", "visits": 2}),
        ("bob", None),
    ]
    cluster, topic = topic_with(bootstrap, records, cleanup_policy="compact")
    assert shown(spark, cluster, topic, "user, visits", "user").rows == [("ann", 2)]
    assert shown(spark, cluster, topic, "count(*) AS n, 1 AS k", "k").rows == [(1, 1)]
