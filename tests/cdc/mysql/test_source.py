"""A capture of MariaDB: types, schema changes, resuming, and what it needs of the server."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cdc.capture import Capture, Captures
from headrace.cdc.change import Change, Committed, Op
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.mysql.source import MysqlSource
from headrace.cdc.runner import CaptureRun
from headrace.kafka.cluster import Cluster
from headrace.testing.mariadb import MariadbServer
from headrace.testing.requirements import require_mariadb
from tests.cdc.conftest import committed_records
from tests.cdc.mysql.steps import Database, changes_of, read_on, take_snapshot, take_transaction, take_until

Open = Callable[..., MysqlSource]

TYPES: list[tuple[str, str, Any]] = [
    ("TINYINT", "-128", -128),
    ("TINYINT UNSIGNED", "255", 255),
    ("SMALLINT UNSIGNED", "65535", 65535),
    ("MEDIUMINT", "-8388608", -8388608),
    ("MEDIUMINT UNSIGNED", "16777215", 16777215),
    ("INT", "-2147483648", -2147483648),
    ("INT UNSIGNED", "4294967295", 4294967295),
    ("BIGINT", "-9223372036854775808", -9223372036854775808),
    ("BIGINT UNSIGNED", "18446744073709551615", 18446744073709551615),
    ("BOOLEAN", "TRUE", 1),
    ("DECIMAL(30,10)", "-12345678901234567890.0123456789", "-12345678901234567890.0123456789"),
    ("DECIMAL(5,0)", "-42", "-42"),
    ("DECIMAL(2,2)", "0.05", "0.05"),
    ("DECIMAL(10,3)", "0", "0.000"),
    ("FLOAT", "3.1415927", 3.1415927),
    ("FLOAT", "16777216", 16777216.0),
    ("DOUBLE", "0.1", 0.1),
    ("DOUBLE", "-1e300", -1e300),
    ("BIT(1)", "b'1'", True),
    ("BIT(10)", "b'101'", "0000000101"),
    ("BIT(64)", "b'1'", "0" * 63 + "1"),
    ("YEAR", "2026", 2026),
    ("YEAR", "0", 0),
    ("DATE", "'2026-11-18'", 20775),
    ("DATE", "'0001-01-01'", -719162),
    ("DATE", "'0000-00-00'", None),
    ("DATE NOT NULL", "'0000-00-00'", 0),
    ("DATE", "'2026-00-10'", None),
    ("TIME", "'-838:59:59'", -3020399000000),
    ("TIME(1)", "'-00:00:00.1'", -100000),
    ("TIME(3)", "'-01:02:03.456'", -3723456000),
    ("TIME(6)", "'-00:00:01.000001'", -1000001),
    ("TIME(6)", "'23:59:59.999999'", 86399999999),
    ("DATETIME", "'2026-11-18 06:30:00'", 1794983400000000),
    ("DATETIME(3)", "'1969-12-31 23:59:59.999'", -1000),
    ("DATETIME(6)", "'9999-12-31 23:59:59.999999'", 253402300799999999),
    ("DATETIME", "'0000-00-00 00:00:00'", None),
    ("TIMESTAMP NULL", "'2026-11-18 06:30:00'", "2026-11-18T06:30:00Z"),
    ("TIMESTAMP(3) NULL", "'2026-11-18 06:30:00.120'", "2026-11-18T06:30:00.12Z"),
    ("TIMESTAMP(6) NULL", "'2038-01-19 03:14:07.999999'", "2038-01-19T03:14:07.999999Z"),
    ("TIMESTAMP NULL", "'0000-00-00 00:00:00'", None),
    ("CHAR(5)", "'ab'", "ab"),
    ("CHAR(200) CHARACTER SET utf8mb4", "'Ünï🚀'", "Ünï🚀"),
    ("VARCHAR(20) CHARACTER SET latin1", "'é€'", "é€"),
    ("VARCHAR(300)", "REPEAT('x', 300)", "x" * 300),
    ("VARCHAR(20) CHARACTER SET utf16", "'a🚀'", "a🚀"),
    ("VARCHAR(20) CHARACTER SET sjis", "'日本'", "日本"),
    ("VARCHAR(20) CHARACTER SET koi8r", "'Привет'", "Привет"),
    ("VARCHAR(20) CHARACTER SET armscii8", "'Բարեւ'", "Բարեւ"),
    ("TEXT CHARACTER SET cp1251", "'Привет'", "Привет"),
    ("LONGTEXT", "REPEAT('y', 70000)", "y" * 70000),
    ("BINARY(4)", "X'0100'", b64encode(b"\x01\0\0\0").decode()),
    ("VARBINARY(20)", "X'00FF00'", b64encode(b"\0\xff\0").decode()),
    ("BLOB", "X'DEADBEEF'", b64encode(b"\xde\xad\xbe\xef").decode()),
    ("ENUM('a','it''s','c,d')", "'it''s'", "it's"),
    ("ENUM('é') CHARACTER SET latin1", "'é'", "é"),
    ("SET('x','y','ž')", "'x,ž'", "x,ž"),
    ("SET('x','y')", "''", ""),
    ("JSON", """'{"a": [1, null, "é"]}'""", '{"a": [1, null, "é"]}'),
    ("UUID", "'123e4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000"),
    ("UUID", "'01890a5d-ac96-774b-bcce-b302099a8057'", "01890a5d-ac96-774b-bcce-b302099a8057"),
    ("UUID", "'00000000-0000-0000-0000-000000000000'", "00000000-0000-0000-0000-000000000000"),
    ("INET4", "'192.0.2.1'", "192.0.2.1"),
    ("INET6", "'2001:db8::1'", "2001:db8::1"),
    ("INET6", "'::ffff:1.2.3.4'", "::ffff:1.2.3.4"),
    ("INT GENERATED ALWAYS AS (id + 1) STORED", "DEFAULT", 2),
    ("INT GENERATED ALWAYS AS (id + 2) VIRTUAL", "DEFAULT", 3),
    ("POINT", "ST_GeomFromText('POINT(1 2)')", "AQEAAAAAAAAAAADwPwAAAAAAAABA"),
    ("GEOMETRY", "ST_GeomFromText('POINT(1 2)', 4326)", "AQEAACDmEAAAAAAAAAAA8D8AAAAAAAAAQA=="),
]


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL", "NO_LOG"])
def test_value_of_every_type_is_the_same_in_snapshot_and_stream(
    database: Database, open_source: Open, metadata: str
) -> None:
    database.run("SET SESSION sql_mode = ''")
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _, _) in enumerate(TYPES))
    database.run(f"CREATE TABLE kinds (id INT PRIMARY KEY, {columns}) ROW_FORMAT = DYNAMIC")
    values = ", ".join(text for _, text, _ in TYPES)
    database.run(f"INSERT INTO kinds VALUES (1, {values})")
    database.run(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        events = open_source().events(None)
        (read,) = take_snapshot(events)
        database.run("DELETE FROM kinds", f"INSERT INTO kinds VALUES (1, {values})")
        (deleted,) = take_transaction(events)
        (created,) = take_transaction(events)
    finally:
        database.run("SET GLOBAL binlog_row_metadata = FULL")
    expected = {f"c{number}": value for number, (_, _, value) in enumerate(TYPES)} | {"id": 1}
    assert read.after is not None
    assert created.after is not None
    differences = {
        name: (TYPES[int(name[1:])][0], read.after[name], created.after[name])
        for name, value in expected.items()
        if not read.after[name] == created.after[name] == value
    }
    assert differences == {}
    assert deleted.before == read.after
    assert read.table == created.table


NOTES = "CREATE TABLE notes (id INT PRIMARY KEY, title VARCHAR(20), n INT)"


@pytest.fixture
def notes(database: Database) -> Database:
    database.run(NOTES, "INSERT INTO notes VALUES (1, 'one', 10), (2, 'two', 20)")
    return database


def test_change_has_its_place_in_the_binary_log(notes: Database, open_source: Open) -> None:
    events = open_source().events(None)
    (first, _) = take_snapshot(events)
    assert first.source["snapshot"] is True
    notes.run("UPDATE notes SET n = n + 1")
    changes = take_transaction(events)
    gtid = notes.value("SELECT @@gtid_binlog_pos")
    assert [change.transaction for change in changes] == [gtid, gtid]
    assert [change.source["row"] for change in changes] == [0, 1]
    where = changes[0].source
    assert (where["db"], where["table"], where["gtid"], where["server_id"]) == (notes.name, "notes", gtid, 1)
    assert (where["file"], where["pos"]) > (first.source["file"], first.source["pos"])
    assert changes[0].before == {"id": 1, "title": "one", "n": 10}, "updates have the whole row before them"


def test_capture_continues_after_the_log_was_rotated(notes: Database, open_source: Open) -> None:
    events = open_source().events(None)
    take_snapshot(events)
    notes.run("FLUSH BINARY LOGS", "INSERT INTO notes VALUES (3, 'three', 30)")
    (change,) = take_transaction(events)
    notes.run("FLUSH BINARY LOGS", "INSERT INTO notes VALUES (4, 'four', 40)", "FLUSH BINARY LOGS")
    (later,) = take_transaction(open_source().events(change.position))
    assert later.after == {"id": 4, "title": "four", "n": 40}


def test_capture_without_ids_continues_by_file_and_position(notes: Database, open_source: Open) -> None:
    events = open_source().events(None)
    take_snapshot(events)
    notes.run("BEGIN", "UPDATE notes SET n = 0", "COMMIT", "INSERT INTO notes VALUES (3, 'three', 30)")
    first, second = take_transaction(events)
    assert first.position is not None
    without_ids = {**first.position, "gtid": ""}
    again = open_source().events(without_ids)
    assert [change.after for change in take_transaction(again)] == [second.after]
    (created,) = take_transaction(again)
    assert created.op is Op.CREATE


def test_domains_of_ids_are_all_continued(notes: Database, open_source: Open) -> None:
    events = open_source().events(None)
    take_snapshot(events)
    notes.run("SET SESSION gtid_domain_id = 7", "INSERT INTO notes VALUES (3, 'three', 30)")
    take_transaction(events)
    notes.run("SET SESSION gtid_domain_id = 0", "INSERT INTO notes VALUES (4, 'four', 40)")
    (change,) = take_transaction(events)
    notes.run("SET SESSION gtid_domain_id = 7", "INSERT INTO notes VALUES (5, 'five', 50)")
    again = open_source().events(change.position)
    found = take_until(again, lambda event: isinstance(event, Change) and (event.after or {}).get("id") == 5)
    assert [change.after["id"] for change in changes_of(found) if change.after] == [5]


@pytest.mark.parametrize("is_by_id", [True, False])
def test_purged_log_is_an_error_with_the_remedy(notes: Database, open_source: Open, is_by_id: bool) -> None:
    events = open_source().events(None)
    take_snapshot(events)
    notes.run("INSERT INTO notes VALUES (3, 'three', 30)")
    position = take_until(events, lambda event: isinstance(event, Committed))[-1].position
    assert position is not None
    events.close()
    notes.run("INSERT INTO notes VALUES (4, 'four', 40)", "FLUSH BINARY LOGS")
    notes.run("INSERT INTO notes VALUES (5, 'five', 50)", "FLUSH BINARY LOGS")
    notes.purge_log()
    again = open_source().events(position if is_by_id else {**position, "gtid": ""})
    with pytest.raises(BadCapture, match="does not have the changes") as failed:
        take_transaction(again)
    assert "new snapshot" in failed.value.hint
    assert "binlog_expire_logs_seconds" in failed.value.hint


def test_log_that_began_anew_is_an_error(notes: Database, open_source: Open) -> None:
    notes.run(*(f"INSERT INTO notes VALUES ({id}, 'row', 0)" for id in range(10, 20)))
    events = open_source().events(None)
    take_snapshot(events)
    notes.run("INSERT INTO notes VALUES (3, 'three', 30)")
    (change,) = take_transaction(events)
    events.close()
    notes.run("RESET MASTER", "INSERT INTO notes VALUES (4, 'four', 40)")
    with pytest.raises(BadCapture, match="does not have the changes"):
        take_transaction(open_source().events(change.position))


def test_log_that_is_deleted_while_it_is_read_is_an_error(notes: Database, open_source: Open) -> None:
    events = open_source().events(None)
    take_snapshot(events)
    notes.run("INSERT INTO notes VALUES (3, 'three', 30)")
    (change,) = take_transaction(events)
    notes.run("RESET MASTER", "INSERT INTO notes VALUES (4, 'four', 40)")
    with pytest.raises(SourceUnavailable, match="binary log ends at"):
        read_on(events)
    with pytest.raises(BadCapture, match="does not have the changes"):
        read_on(open_source().events(change.position))


def test_server_that_is_gone_is_unavailable_and_then_continued() -> None:
    require_mariadb()
    with MariadbServer() as server:
        database = Database(server, "crm")
        database.run(NOTES, "INSERT INTO notes VALUES (1, 'one', 10)")
        source = MysqlSource("crm", database.address)
        events = source.events(None)
        take_snapshot(events)
        database.run("INSERT INTO notes VALUES (2, 'two', 20)")
        (change,) = take_transaction(events)
        server.kill()
        with pytest.raises(SourceUnavailable, match=r"connection to|cannot connect"):
            take_transaction(events)
        with pytest.raises(SourceUnavailable, match="cannot connect") as refused:
            take_transaction(source.events(change.position))
        assert "secret" not in str(refused.value)
        server.start()
        database = Database(server, "crm", exists=True)
        database.run("INSERT INTO notes VALUES (3, 'three', 30)")
        (later,) = take_transaction(source.events(change.position))
        assert later.after == {"id": 3, "title": "three", "n": 30}
        source.close()


def test_table_of_another_database_is_not_captured(notes: Database, open_source: Open) -> None:
    other = f"{notes.name}_other"
    notes.run(f"CREATE DATABASE {other}", f"CREATE TABLE {other}.notes (id INT PRIMARY KEY)")
    events = open_source().events(None)
    take_snapshot(events)
    notes.run(f"INSERT INTO {other}.notes VALUES (1)", "INSERT INTO notes VALUES (3, 'three', 30)")
    (change,) = take_transaction(events)
    assert change.table.path == (notes.name, "notes")


def test_address_without_a_database_captures_all_that_match(notes: Database, open_source: Open) -> None:
    address = notes.server.address("")
    events = open_source(f"{notes.name}.*", address=address).events(None)
    assert [change.table.path for change in take_snapshot(events)] == [(notes.name, "notes")] * 2


def test_lag_is_the_log_after_the_confirmed_position(notes: Database, open_source: Open) -> None:
    source = open_source()
    events = source.events(None)
    take_snapshot(events)
    assert source.lag_bytes() is None
    notes.run("INSERT INTO notes VALUES (3, 'three', 30)")
    end = take_until(events, lambda event: isinstance(event, Committed) and event.transaction is not None)[-1]
    assert end.position is not None
    source.confirm(end.position)
    assert source.lag_bytes() == 0
    notes.run("FLUSH BINARY LOGS", "INSERT INTO notes VALUES (4, 'four', 40)")
    lag = source.lag_bytes()
    assert lag is not None
    assert lag > 0


@pytest.mark.slow
def test_row_of_many_megabytes_is_captured(notes: Database, open_source: Open) -> None:
    notes.run("SET GLOBAL max_allowed_packet = 1073741824")
    notes.connect()
    notes.run("ALTER TABLE notes ADD COLUMN content LONGBLOB")
    events = open_source().events(None)
    take_snapshot(events)
    notes.run("INSERT INTO notes VALUES (3, 'large', 0, REPEAT('x', 15000000))")
    notes.run("UPDATE notes SET content = CONCAT(content, content) WHERE id = 3")
    take_transaction(events)
    (change,) = take_transaction(events)
    assert change.after is not None
    assert len(b64decode(change.after["content"])) == 30_000_000


def test_tables_become_topics_with_every_change_once(
    notes: Database, bootstrap: str, cluster: Cluster, name: str, tmp_path: Path
) -> None:
    """The whole way: the address chooses the source, and topics have the names that Debezium gives them."""
    capture = Capture(name=name, address=notes.address.replace("mysql://", "mariadb://"), keep="both")
    folder = Captures(tmp_path).add(capture)
    CaptureRun(capture, folder, cluster, once=True).run()
    notes.run("BEGIN", "UPDATE notes SET id = 3 WHERE id = 1", "DELETE FROM notes WHERE id = 2", "COMMIT")
    CaptureRun(capture, folder, cluster, once=True).run()
    topic = f"{name}.{notes.name}.notes"
    latest = [(key["id"], value and value["op"]) for key, value in committed_records(bootstrap, topic)]
    assert sorted(latest, key=str) == sorted(
        [(1, "r"), (2, "r"), (1, "d"), (1, None), (3, "c"), (2, "d"), (2, None)], key=str
    )
    deleted = next(
        value for _, value in committed_records(bootstrap, f"{topic}.changes") if value["op"] == "d"
    )
    assert deleted["before"] == {"id": 1, "title": "one", "n": 10}
    assert deleted["source"]["connector"] == "mariadb"
    assert deleted["transaction"]["id"] == notes.value("SELECT @@gtid_binlog_pos")
    marks = [value["status"] for _, value in committed_records(bootstrap, f"{name}.transaction")]
    assert marks == ["BEGIN", "END"]
    notes.run("TRUNCATE TABLE notes")
    CaptureRun(capture, folder, cluster, once=True).run()
    last = {key["id"]: value for key, value in committed_records(bootstrap, topic)}
    assert set(last.values()) == {None}


def test_check_of_a_running_capture_does_not_end_its_stream(notes: Database, open_source: Open) -> None:
    source = open_source()
    events = source.events(None)
    take_snapshot(events)
    notes.run("INSERT INTO notes VALUES (3, 'three', 30)")
    take_transaction(events)
    assert source.check() == [f"{notes.name}.notes"]
    notes.run("INSERT INTO notes VALUES (4, 'four', 40)")
    (change,) = take_transaction(events)
    assert change.after == {"id": 4, "title": "four", "n": 40}
