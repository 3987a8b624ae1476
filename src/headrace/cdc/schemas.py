"""The schemas of captured tables, in a topic with the name of the capture: columns, types and keys for readers.

The value of a record is Debezium's schema change event. Each column has in addition what a reader of the table's topic
needs: the type of Kafka Connect, its semantic name, and the type of an array's items. The key is the table, and the
topic is compacted, so its last records are the current schemas. A schema is committed together with the first change
that has it, so a reader that has the change finds the schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Struct

from headrace.cdc.capture import Capture
from headrace.cdc.change import Column, Position, Table
from headrace.cdc.envelope import Record
from headrace.cdc.errors import BadCapture
from headrace.cdc.publisher import Publisher
from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import read_committed

_CONFIG = {"cleanup.policy": "compact"}


class TableSchema(Struct, frozen=True, kw_only=True):
    """A captured table as it was when its last schema change was captured."""

    table: Table
    topics: tuple[str, ...]
    """that have its changes"""


class _Body(Struct, frozen=True, kw_only=True, rename="camel"):
    primary_key_column_names: tuple[str, ...]
    columns: tuple[Column, ...]


class _TableChange(Struct, frozen=True, kw_only=True):
    table: _Body


class _Value(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is read of a value. Records of others, such as Debezium, have no `path` and no `topics`."""

    path: tuple[str, ...]
    topics: tuple[str, ...]
    table_changes: tuple[_TableChange]


def read_schemas(cluster: Cluster, capture: str) -> dict[str, TableSchema]:
    """The schemas of a capture's tables, by the name of each topic. Empty if the capture has written none."""
    if capture not in cluster.topics():
        return {}
    return {topic: schema for schema in _read(cluster, capture).values() for topic in schema.topics}


def schema_of(cluster: Cluster, topic: str) -> TableSchema | None:
    """The schema of a captured topic, such as `shop.public.users`. None if no capture of Headrace writes it."""
    return read_schemas(cluster, topic.partition(".")[0]).get(topic)


def _read(cluster: Cluster, capture: str) -> dict[bytes, TableSchema]:
    found: dict[bytes, TableSchema] = {}
    for message in read_committed(cluster, capture):
        schema = _decoded(message.value())
        key = message.key()
        if key is not None and schema is not None:
            found[key] = schema
    return found


def _decoded(value: bytes | None) -> TableSchema | None:
    try:
        found = msgspec.json.decode(value or b"", type=_Value)
    except msgspec.DecodeError:
        return None
    (change,) = found.table_changes
    table = Table(path=found.path, columns=change.table.columns, key=change.table.primary_key_column_names)
    return TableSchema(table=table, topics=found.topics)


class SchemaTopic:
    """Writes the schema of a table before the first change that has it. A restart does not repeat it."""

    def __init__(self, capture: Capture, publisher: Publisher, cluster: Cluster) -> None:
        self._capture = capture
        self._publisher = publisher
        self._cluster = cluster
        self._source = {
            "version": version("headrace"),
            "connector": capture.connector,
            "name": capture.name,
        }
        self._written: dict[tuple[str, ...], TableSchema] | None = None
        self._unread: list[str] = []

    @property
    def tables(self) -> set[str]:
        """The names of all tables that have a schema."""
        return {schema.table.name for schema in (self._written or {}).values()}

    def take_unread(self) -> list[str]:
        """Tables that were seen first by a change and not by a snapshot, since the last call."""
        unread, self._unread = self._unread, []
        return unread

    def follow(
        self,
        table: Table,
        topics: Sequence[str],
        *,
        source: Position,
        committed_ms: int,
        now_ms: int,
        is_read: bool = False,
    ) -> None:
        """Write the schema of a change to the table, if it is not the last one. `is_read`: by a snapshot."""
        if not table.columns:
            return  # a table that was emptied because it is gone
        if self._written is None:
            self._written = self._open()
        before = self._written.get(table.path)
        if before is not None and before.table is table:  # the usual case: nothing to compare
            return
        schema = TableSchema(table=table, topics=tuple(topics))
        self._written[table.path] = schema
        if before is None and not is_read:
            self._unread.append(table.name)
        if schema != before:
            record = self._record(schema, source, committed_ms, now_ms, is_new=before is None)
            self._publisher.write(self._capture.name, record)

    def _open(self) -> dict[tuple[str, ...], TableSchema]:
        name = self._capture.name
        if not self._cluster.create_topic(name, partitions=1, config=_CONFIG, exist_ok=True):
            policy = self._cluster.configs("topic", name)["cleanup.policy"].value or ""
            if "compact" not in policy:
                raise BadCapture(
                    f"topic {name} is not compacted, so capture {name} cannot write the schemas of its tables there",
                    hint="choose another name for the capture, or delete the topic if nothing else uses it",
                )
        return {schema.table.path: schema for schema in _read(self._cluster, name).values()}

    def _record(
        self, schema: TableSchema, source: Position, committed_ms: int, now_ms: int, *, is_new: bool
    ) -> Record:
        table, database = schema.table, source.get("db")
        columns: list[dict[str, Any]] = [
            {**msgspec.structs.asdict(column), "position": position}
            for position, column in enumerate(table.columns, 1)
        ]
        value = {
            "source": {
                **self._source,
                "ts_ms": committed_ms,
                "snapshot": "false",
                **source,
            },
            "ts_ms": now_ms,
            "databaseName": database,
            "schemaName": source.get("schema"),
            "ddl": None,
            "tableChanges": [
                {
                    "type": "CREATE" if is_new else "ALTER",
                    "id": ".".join(_quoted(part) for part in (database, *table.path) if part is not None),
                    "table": {
                        "defaultCharsetName": None,
                        "primaryKeyColumnNames": table.key,
                        "columns": columns,
                    },
                }
            ],
            "path": table.path,
            "topics": schema.topics,
        }
        key = {"databaseName": database, "table": table.name}
        return Record(key=msgspec.json.encode(key), value=msgspec.json.encode(value))


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'
