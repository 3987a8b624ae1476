"""The schemas of captured tables, as a reader finds them over the wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from headrace.cdc.capture import Capture, CaptureFolder, Captures
from headrace.cdc.change import Column, Table
from headrace.cdc.errors import BadCapture
from headrace.cdc.publisher import Kept, Publisher
from headrace.cdc.runner import CaptureRun
from headrace.cdc.schemas import SchemaTopic, TableSchema, read_schemas, schema_of
from headrace.kafka.cluster import Cluster
from headrace.testing.postgres import PostgresServer
from tests.cdc.conftest import committed_records
from tests.contract.change_source_contract import SourceCase, sqlite_case

USERS = Table(
    path=("public", 'us"ers'),
    columns=(
        Column(name="id", type="int64", optional=False),
        Column(name="born", type="int32", semantic="io.debezium.time.Date"),
        Column(name="tags", type="array", items="string"),
    ),
    key=("id",),
)


def follow(schemas: SchemaTopic, table: Table, topic: str, now_ms: int = 1) -> None:
    source = {"db": "crm", "schema": "public", "table": table.path[-1], "lsn": 7}
    schemas.follow(table, [topic], source=source, committed_ms=1_000, now_ms=now_ms)


def values(bootstrap: str, capture: str) -> list[Any]:
    return [value for _, value in committed_records(bootstrap, capture)]


@pytest.fixture
def capture(name: str) -> Capture:
    return Capture(name=name, address="postgresql://localhost/crm")


def test_schema_is_debeziums_schema_change_event_with_the_types_of_connect(
    capture: Capture, cluster: Cluster, bootstrap: str
) -> None:
    publisher = Publisher(capture.name, cluster)
    schemas = SchemaTopic(capture, publisher, cluster)
    follow(schemas, USERS, f"{capture.name}.public.us_ers", 2_000)
    publisher.commit(Kept(position={"lsn": 7}))
    ((key, value),) = committed_records(bootstrap, capture.name)
    assert key == {"databaseName": "crm", "table": 'public.us"ers'}
    assert (value["databaseName"], value["schemaName"], value["ddl"]) == ("crm", "public", None)
    assert (value["ts_ms"], value["source"]["ts_ms"], value["source"]["lsn"]) == (2_000, 1_000, 7)
    assert (value["source"]["connector"], value["source"]["name"]) == ("postgresql", capture.name)
    (table_change,) = value["tableChanges"]
    assert (table_change["type"], table_change["id"]) == ("CREATE", '"crm"."public"."us""ers"')
    assert table_change["table"]["primaryKeyColumnNames"] == ["id"]
    assert table_change["table"]["columns"][1] == {
        "name": "born",
        "position": 2,
        "optional": True,
        "type": "int32",
        "semantic": "io.debezium.time.Date",
        "items": None,
    }
    assert cluster.configs("topic", capture.name)["cleanup.policy"].value == "compact"
    assert schema_of(cluster, f"{capture.name}.public.us_ers") == TableSchema(
        table=USERS, topics=(f"{capture.name}.public.us_ers",)
    )
    publisher.close()


def test_schema_is_written_once_until_it_changes_also_after_a_restart(
    capture: Capture, cluster: Cluster, bootstrap: str
) -> None:
    wider = replace(USERS, columns=(*USERS.columns, Column(name="city", type="string")))
    for tables in ([USERS, USERS, replace(USERS)], [replace(USERS), wider, wider], [replace(wider)]):
        publisher = Publisher(capture.name, cluster)
        schemas = SchemaTopic(capture, publisher, cluster)
        for table in tables:
            follow(schemas, table, "t")
        publisher.commit(Kept(position={"lsn": 7}))
        publisher.close()
    written = [value["tableChanges"][0] for value in values(bootstrap, capture.name)]
    assert [each["type"] for each in written] == ["CREATE", "ALTER"]
    assert read_schemas(cluster, capture.name)["t"].table == wider


def test_schema_of_a_transaction_that_was_not_committed_is_written_again(
    capture: Capture, cluster: Cluster, bootstrap: str
) -> None:
    killed = Publisher(capture.name, cluster)
    follow(SchemaTopic(capture, killed, cluster), USERS, "t")
    killed.close()
    publisher = Publisher(capture.name, cluster)
    assert read_schemas(cluster, capture.name) == {}
    follow(SchemaTopic(capture, publisher, cluster), USERS, "t")
    publisher.commit(Kept(position={"lsn": 7}))
    assert [value["tableChanges"][0]["type"] for value in values(bootstrap, capture.name)] == ["CREATE"]
    publisher.close()


def test_topic_that_is_not_compacted_is_not_written(capture: Capture, cluster: Cluster) -> None:
    cluster.create_topic(capture.name, partitions=1, config={"cleanup.policy": "delete"})
    publisher = Publisher(capture.name, cluster)
    with pytest.raises(BadCapture, match="is not compacted") as rejected:
        follow(SchemaTopic(capture, publisher, cluster), USERS, "t")
    assert "another name" in rejected.value.hint
    publisher.close()


def test_records_of_others_are_no_schemas(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=1)
    producer = Producer(cluster.client_config())
    debezium = {
        "databaseName": "crm",
        "tableChanges": [{"type": "CREATE", "id": "x", "table": {"columns": []}}],
    }
    for value in (json.dumps(debezium).encode(), b"not json", None):
        producer.produce(name, value, key=b"k")
    producer.flush(30)
    assert read_schemas(cluster, name) == {}
    assert schema_of(cluster, f"{name}-missing.public.users") is None


@pytest.fixture
def notes(tmp_path: Path) -> SourceCase:
    case = sqlite_case(tmp_path)
    case.run("CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT)", "INSERT INTO notes VALUES (1, 'a')")
    return case


def test_reader_that_has_a_change_finds_its_schema(
    notes: SourceCase, name: str, cluster: Cluster, bootstrap: str, tmp_path: Path
) -> None:
    capture = Capture(name=name, address=f"sqlite:///{tmp_path / 'shop.db'}", keep="both", partitions=1)
    folder = Captures(tmp_path / "data").add(capture)
    CaptureRun(capture, folder, cluster, once=True).run()
    CaptureRun(capture, folder, cluster, once=True).run()
    found = read_schemas(cluster, name)
    assert set(found) == {f"{name}.notes", f"{name}.notes.changes"}
    assert found[f"{name}.notes"].table == Table(
        path=("notes",),
        columns=(Column(name="id", type="int64", optional=False), Column(name="title", type="string")),
        key=("id",),
    )
    notes.run("ALTER TABLE notes ADD COLUMN done BOOLEAN")
    notes.run("INSERT INTO notes VALUES (2, 'b', 1)")
    CaptureRun(capture, folder, cluster, once=True).run()
    assert [column.name for column in read_schemas(cluster, name)[f"{name}.notes"].table.columns] == [
        "id",
        "title",
        "done",
    ]
    assert [value["tableChanges"][0]["type"] for value in values(bootstrap, name)] == ["CREATE", "ALTER"]


def run_once(capture: Capture, folder: CaptureFolder, cluster: Cluster) -> None:
    CaptureRun(capture, folder, cluster, once=True).run()


def test_schema_of_postgres_changes_with_ddl_and_is_the_same_in_snapshot_and_stream(
    name: str, cluster: Cluster, bootstrap: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    import psycopg

    address = postgres.create_database(name)
    capture = Capture(name=name, address=address, partitions=1)
    folder = Captures(tmp_path / "data").add(capture)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE users (id INT PRIMARY KEY, born DATE, tags TEXT[] NOT NULL)")
        connection.execute("INSERT INTO users VALUES (1, '2000-01-01', '{a}')")
        run_once(capture, folder, cluster)
        connection.execute("INSERT INTO users VALUES (2, NULL, '{}')")
        run_once(capture, folder, cluster)
        assert len(values(bootstrap, name)) == 1
        connection.execute("ALTER TABLE users ADD COLUMN city TEXT, DROP COLUMN born")
        connection.execute("INSERT INTO users VALUES (3, '{}', 'Oslo')")
        run_once(capture, folder, cluster)
    first, second = values(bootstrap, name)
    assert (first["databaseName"], first["schemaName"]) == (name, "public")
    assert second["tableChanges"][0]["type"] == "ALTER"
    schema = schema_of(cluster, f"{name}.public.users")
    assert schema is not None
    assert schema.table.columns == (
        Column(name="id", type="int32", optional=False),
        Column(name="tags", type="array", items="string", optional=False),
        Column(name="city", type="string"),
    )
    source = capture.open_source()
    source.remove()
    source.close()
