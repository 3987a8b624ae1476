"""A shop whose tables are topics of change events, and what DuckDB answers over the same topics.

DuckDB reads the records themselves, so it knows nothing of the code under test.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.kafka.cluster import Cluster
from headrace.pipeline.sinks.changes import collapse
from headrace.pipeline.sinks.sink import RejectedRow, without_failed
from headrace.plan_names import FAILED_ROW
from headrace.views.definition import Definition
from headrace.views.sql import rows_of
from headrace.views.topic_columns import TopicColumns, columns_of
from tests.compatibility.topic_contents import read_to_end, write
from tests.views.topics import create_topic

CITIES = ["Oslo", "Rome", "Łódź", None]
STATES = ["open", "paid", "sent"]
TABLES = ("users", "orders", "items", "clicks")


class Shop:
    """Random changes of users, orders, items and clicks (plain events), each in a topic `shop.UNIQUE.TABLE`."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self._bootstrap = bootstrap
        self.cluster = Cluster(bootstrap, timeout_s=30)
        self._random = random.Random(seed)
        self._prefix = f"shop.{uuid.uuid4().hex[:8]}"
        self._columns: dict[str, TopicColumns] = {}
        self._rows: dict[str, dict[Any, dict[str, Any]]] = {table: {} for table in TABLES}
        for topic in self.topics:
            create_topic(self.cluster, topic, partitions=2)

    def topic(self, table: str) -> str:
        return f"{self._prefix}.{table}"

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(map(self.topic, TABLES))

    def change(self, count: int) -> None:
        """Write this many random changes to each topic."""
        for table in TABLES:
            changes = [self._change(table) for _ in range(count)]
            records = [record for change in changes for record in change]
            write(self._bootstrap, self.topic(table), records, partitioner="murmur2_random")

    def _change(self, table: str) -> Iterator[dict[str, Any]]:
        chance = self._random.random
        if table == "clicks":
            click = {"user": self._random.choice(["ann", "bob"]), "ms": self._random.randrange(100)}
            return iter([{"value": json.dumps(click)}])
        rows = self._rows[table]
        id = self._random.randrange(12)
        key = self._key(table, id)
        before = rows.get(id)
        if before is not None and chance() < 0.3:
            del rows[id]
            deleted = {"before": before, "after": None, "op": "d", "ts_ms": 1}
            return iter([{"key": key, "value": json.dumps(deleted)}, {"key": key, "value": None}])
        row = self._row(table, id)
        rows[id] = row
        change = {"before": before, "after": row, "op": "c" if before is None else "u", "ts_ms": 1}
        return iter([{"key": key, "value": json.dumps(change)}])

    def _key(self, table: str, id: int) -> str:
        if table == "items":
            return json.dumps({"order_id": id // 3, "line": id % 3})
        return json.dumps({"id": id})

    def _row(self, table: str, id: int) -> dict[str, Any]:
        pick, number = self._random.choice, self._random.randrange
        match table:
            case "users":
                return {"id": id, "name": f"user {id}", "city": pick(CITIES), "age": pick([None, 20, 30, 40])}
            case "orders":
                return {
                    "id": id,
                    "user_id": pick([None, *range(12)]),
                    "state": pick(STATES),
                    "amount": number(50),
                }
            case _:
                return {
                    "order_id": id // 3,
                    "line": id % 3,
                    "quantity": number(1, 5),
                    "price": number(1, 40) / 4,
                }

    # What the view and DuckDB show

    def definition(self, sql: str, key: Sequence[str]) -> Definition:
        return Definition(name="tested", topics=self.topics, key=tuple(key), sql=sql)

    def columns(self) -> dict[str, TopicColumns]:
        return columns_of(self.definition("", ["id"]), self.cluster)

    def bounded(self, spark: SparkSession, sql: str, key: Sequence[str]) -> Shown:
        self._columns = self._columns or self.columns()
        rows = rows_of(self.definition(sql, key), spark, self.cluster, columns=self._columns, bounded=True)
        shown = Shown(key)
        shown.apply(rows.toArrow())
        return shown

    def duckdb(self, sql: str) -> list[tuple[Any, ...]]:
        with duckdb.connect() as connection:
            for table in TABLES:
                self._load(connection, table)
            return sorted(connection.execute(sql).fetchall(), key=repr)

    def _load(self, connection: Any, table: str) -> None:
        records = read_to_end(self._bootstrap, self.topic(table))
        connection.execute(f"CREATE TABLE {table}_log (key VARCHAR, number BIGINT, value JSON)")
        for each in records:
            key = None if each.key() is None else each.key().decode()
            value = None if each.value() is None else each.value().decode()
            connection.execute(f"INSERT INTO {table}_log VALUES (?, ?, ?)", [key, each.offset(), value])
        if table == "clicks":
            last, fields = "SELECT value AS row FROM clicks_log", _FIELDS[table]
        else:
            fields = _FIELDS[table]
            last = (
                f"SELECT value->'after' AS row FROM {table}_log "
                "QUALIFY row_number() OVER (PARTITION BY key ORDER BY number DESC) = 1 AND value IS NOT NULL"
            )
        chosen = ", ".join(f"CAST(row->>'{name}' AS {kind}) AS {name}" for name, kind in fields.items())
        connection.execute(f"CREATE VIEW {table} AS SELECT {chosen} FROM ({last})")


_FIELDS: Mapping[str, Mapping[str, str]] = {
    "users": {"id": "BIGINT", "name": "VARCHAR", "city": "VARCHAR", "age": "BIGINT"},
    "orders": {"id": "BIGINT", "user_id": "BIGINT", "state": "VARCHAR", "amount": "BIGINT"},
    "items": {"order_id": "BIGINT", "line": "BIGINT", "quantity": "BIGINT", "price": "DOUBLE"},
    "clicks": {"user": "VARCHAR", "ms": "BIGINT"},
}


class Shown:
    """What a sink by key shows of the rows of a view."""

    def __init__(self, key: Sequence[str]) -> None:
        self._key = tuple(key)
        self._rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.failed: list[RejectedRow] = []

    def apply(self, rows: pa.Table) -> None:
        if FAILED_ROW in rows.column_names:
            rows, failed = without_failed(rows)
            self.failed += failed
        changes = collapse(rows, key=self._key)
        for row in changes.deletes.to_pylist():
            self._rows.pop(tuple(row[name] for name in self._key), None)
        for row in changes.upserts.to_pylist():
            self._rows[tuple(row[name] for name in self._key)] = tuple(row.values())

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(self._rows.values(), key=repr)


class Followed:
    """The rows of a view as a stream. Each `catch_up` is a run that continues from the checkpoint."""

    def __init__(self, rows: DataFrame, shown: Shown, checkpoint: Path) -> None:
        self._rows = rows
        self._checkpoint = checkpoint
        self._shown = shown

    def catch_up(self) -> Shown:
        query = (
            self._rows.writeStream.foreachBatch(lambda batch, _: self._shown.apply(batch.toArrow()))
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return self._shown


Record = tuple[Any, Any]


def topic_with(bootstrap: str, records: Sequence[Record], **config: str) -> tuple[Cluster, str]:
    """(key, value): objects become JSON, texts stay what they are."""
    cluster, topic = Cluster(bootstrap, timeout_s=30), f"shop.public.t{uuid.uuid4().hex[:8]}"
    create_topic(
        cluster, topic, partitions=1, config={name.replace("_", "."): text for name, text in config.items()}
    )
    encoded = [
        {"key": key if isinstance(key, str) else json.dumps(key), "value": value and json.dumps(value)}
        for key, value in records
    ]
    write(bootstrap, topic, encoded)
    return cluster, topic
