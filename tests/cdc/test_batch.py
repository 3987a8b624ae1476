"""The topics of a capture, and what a commit writes to them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.cdc.batch import topic_name
from headrace.cdc.capture import Capture, CaptureFolder, Captures
from headrace.cdc.change import UNAVAILABLE, Change, Column, Committed, Event, Op, Table
from headrace.cdc.errors import BadCapture
from headrace.cdc.postgres import live
from headrace.cdc.postgres.changed_columns import changed_rows
from headrace.cdc.publisher import Publisher
from headrace.cdc.runner import CaptureRun
from headrace.cdc.source import SnapshotProgress
from headrace.kafka.cluster import Cluster
from headrace.testing.postgres import PostgresServer
from tests.cdc.conftest import committed_records, ops
from tests.contract.change_source_contract import SourceCase

WAIT_S = 30.0


def test_kept_changes_have_their_own_topic_without_tombstones(
    notes: SourceCase, capture: Capture, folder: CaptureFolder, cluster: Cluster, bootstrap: str
) -> None:
    CaptureRun(replace(capture, keep="both"), folder, cluster, once=True).run()
    notes.run("DELETE FROM notes WHERE id = 2")
    CaptureRun(replace(capture, keep="both"), folder, cluster, once=True).run()
    assert ops(bootstrap, f"{capture.name}.notes")[-2:] == [(2, "d"), (2, None)]
    assert ops(bootstrap, f"{capture.name}.notes.changes")[-1] == (2, "d")
    configs = cluster.configs("topic", f"{capture.name}.notes.changes")
    assert (configs["cleanup.policy"].value, configs["retention.ms"].value) == ("delete", "-1")


def test_tables_of_a_pattern_keep_what_it_says(
    notes: SourceCase, capture: Capture, folder: CaptureFolder, cluster: Cluster
) -> None:
    notes.run("CREATE TABLE audit_log (id INTEGER PRIMARY KEY)", "INSERT INTO audit_log VALUES (1)")
    CaptureRun(replace(capture, keep_by_table=(("audit_*", "all"),)), folder, cluster, once=True).run()
    policies = {
        table: cluster.configs("topic", f"{capture.name}.{table}")["cleanup.policy"].value
        for table in ("notes", "audit_log")
    }
    assert policies == {"notes": "compact", "audit_log": "delete"}


def test_tables_that_would_share_a_topic_are_rejected(
    notes: SourceCase, capture: Capture, folder: CaptureFolder, cluster: Cluster
) -> None:
    for table in ("a b", "a_b"):
        notes.run(f'CREATE TABLE "{table}" (id INTEGER PRIMARY KEY)', f'INSERT INTO "{table}" VALUES (1)')
    with pytest.raises(BadCapture, match=r"a_b and a b would share topic"):
        CaptureRun(capture, folder, cluster, once=True).run()


def test_topic_is_named_as_debezium_names_it() -> None:
    table = Table(path=("public", "Überweisung 1"), columns=(Column(name="id", type="int64"),), key=("id",))
    assert topic_name("shop", table) == "shop.public._berweisung_1"


class Truncating:
    """A source that yields some changes and a truncate, as SQLite has none."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def events(self, position: object, *, once: bool = False) -> Generator[Event | None, None, None]:
        yield from self._events

    def confirm(self, position: object) -> None: ...

    def progress(self) -> list[SnapshotProgress]:
        return []

    def lag_bytes(self) -> int | None:
        return None

    def close(self) -> None: ...


def test_truncate_removes_all_rows_from_a_compacted_topic(
    capture: Capture, folder: CaptureFolder, cluster: Cluster, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(path=("t",), columns=(Column(name="id", type="int64"),), key=("id",))

    def change(number: int, op: Op, **rows: Any) -> Change:
        return Change(
            table=table, op=op, committed_ms=1, source={}, position={"n": number}, transaction="7", **rows
        )

    events: list[Event] = [
        change(1, Op.CREATE, after={"id": 1}),
        change(2, Op.CREATE, after={"id": 2}),
        change(3, Op.DELETE, before={"id": 2}),
        change(4, Op.TRUNCATE),
        change(5, Op.CREATE, after={"id": 3}),
        Committed(committed_ms=1, position={"n": 6}, transaction="7"),
    ]
    monkeypatch.setattr(Capture, "open_source", lambda _self: Truncating(events))
    CaptureRun(replace(capture, keep="both"), folder, cluster, once=True).run()
    assert ops(bootstrap, f"{capture.name}.t") == [
        (1, "c"),
        (2, "c"),
        (2, "d"),
        (2, None),
        (1, None),
        (3, "c"),
    ]
    kept = committed_records(bootstrap, f"{capture.name}.t.changes")
    assert [value["op"] for _, value in kept] == ["c", "c", "d", "t", "c"]
    assert [value["transaction"]["total_order"] for _, value in kept] == [1, 2, 3, 4, 5]
    begin, end = (value for _, value in committed_records(bootstrap, f"{capture.name}.transaction"))
    assert (begin["status"], end["status"], end["event_count"]) == ("BEGIN", "END", 5)


def test_transactions_of_postgres_are_marked_and_their_changes_numbered(
    name: str, cluster: Cluster, bootstrap: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    import psycopg

    address = postgres.create_database(name)
    capture = Capture(name=name, address=address, keep="all", partitions=1)
    folder = Captures(tmp_path / "data").add(capture)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE a (id INT PRIMARY KEY, price NUMERIC)")
        connection.execute("CREATE TABLE b (id INT PRIMARY KEY)")
        connection.execute("INSERT INTO a VALUES (1, 9.90)")
        CaptureRun(capture, folder, cluster, once=True).run()
        with connection.transaction():
            connection.execute("INSERT INTO a VALUES (2, 0.10)")
            connection.execute("INSERT INTO b VALUES (7)")
            connection.execute("UPDATE a SET price = price + 1 WHERE id = 2")
        CaptureRun(capture, folder, cluster, once=True).run()
    (_, read), (_, created), (_, updated) = committed_records(bootstrap, f"{name}.public.a")
    assert (read["op"], read["after"]) == ("r", {"id": 1, "price": "9.90"})
    assert (updated["op"], updated["after"]) == ("u", {"id": 2, "price": "1.10"})
    assert created["source"]["connector"] == "postgresql"
    id = created["transaction"]["id"]
    assert updated["transaction"] == {"id": id, "total_order": 3, "data_collection_order": 2}
    begin, end = (
        value for _, value in committed_records(bootstrap, f"{name}.transaction") if value["id"] == id
    )
    assert (begin["status"], end["status"], end["event_count"]) == ("BEGIN", "END", 3)
    source = capture.open_source()
    source.remove()
    source.close()


@pytest.mark.parametrize("killed_at", ["nothing", "create", "compact"])
def test_topic_is_compacted_when_its_snapshot_is_complete(
    name: str,
    cluster: Cluster,
    bootstrap: str,
    postgres: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed_at: str,
) -> None:
    import psycopg

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    address = postgres.create_database(name)
    capture = Capture(name=name, address=address, partitions=1)
    folder = Captures(tmp_path / "data").add(capture)
    topic = f"{name}.public.a"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE a (id INT PRIMARY KEY)")
        connection.execute("INSERT INTO a VALUES (1), (2)")
    if killed_at != "nothing":
        with monkeypatch.context() as patch:
            patch.setattr(Publisher, {"create": "write_rows", "compact": "compact"}[killed_at], kill)
            with pytest.raises(Killed):
                CaptureRun(capture, folder, cluster, once=True).run()
        configs = cluster.configs("topic", topic)
        assert (configs["cleanup.policy"].value, configs["retention.ms"].value) == ("delete", "-1")
    CaptureRun(capture, folder, cluster, once=True).run()
    configs = cluster.configs("topic", topic)
    assert configs["cleanup.policy"].value == "compact"
    assert configs["retention.ms"].is_default
    assert ops(bootstrap, topic) == [(1, "r"), (2, "r")]
    source = capture.open_source()
    source.remove()
    source.close()


def test_last_record_of_every_key_has_the_whole_row_and_the_history_has_what_was_logged(
    name: str, cluster: Cluster, bootstrap: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    import psycopg

    address = postgres.create_database(name)
    capture = Capture(name=name, address=address, keep="both", partitions=1)
    folder = Captures(tmp_path / "data").add(capture)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY, big TEXT, n INT)")
        connection.execute("ALTER TABLE t ALTER COLUMN big SET STORAGE EXTERNAL")
        connection.execute("INSERT INTO t SELECT x, repeat(x::text, 9000), 0 FROM generate_series(1, 50) x")
        CaptureRun(capture, folder, cluster, once=True).run()
        connection.execute("UPDATE t SET n = 1")
        connection.execute("UPDATE t SET n = 2, id = id + 100 WHERE id > 40")
        connection.execute("DELETE FROM t WHERE id <= 3")
        CaptureRun(capture, folder, cluster, once=True).run()
        rows = {
            id: {"id": id, "big": big, "n": n}
            for id, big, n in connection.execute("SELECT id, big, n FROM t").fetchall()
        }
    last = {key["id"]: value for key, value in committed_records(bootstrap, f"{name}.public.t")}
    assert {id: value["after"] for id, value in last.items() if value} == rows
    updates = [
        value["after"]
        for _, value in committed_records(bootstrap, f"{name}.public.t.changes")
        if value["op"] == "u"
    ]
    assert updates == [{"id": id, "big": UNAVAILABLE, "n": 1} for id in range(1, 51)]
    source = capture.open_source()
    source.remove()
    source.close()


BACKLOG = (
    r"""INSERT INTO a SELECT n, n * .5, 'é" \' || n, now(), ARRAY[n, NULL], '\x00ff' FROM generate_series(1, 9999) n""",
    "UPDATE a SET note = NULL, ok = n % 2 = 0 WHERE n < 2000; UPDATE b SET id = id WHERE id < 50",
    "DELETE FROM a WHERE n % 3 = 0; DELETE FROM b WHERE id = 7; INSERT INTO b VALUES (7, 'again')",
    *[f"UPDATE b SET name = 'n{n}' WHERE id = {n % 90}; INSERT INTO c VALUES ({n})" for n in range(500)],
)


def test_backlog_by_columns_has_the_records_of_single_changes(
    name: str,
    cluster: Cluster,
    bootstrap: str,
    postgres: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import psycopg

    address = postgres.create_database(name)
    by_columns, one_by_one = (
        Capture(name=f"{name}{suffix}", address=address, keep="both", tables=("public.[ab]",), partitions=1)
        for suffix in "xy"
    )
    captures = Captures(tmp_path / "data")
    folders = {capture.name: captures.add(capture) for capture in (by_columns, one_by_one)}
    blocks = []

    def watched(*arguments: Any) -> Any:
        blocks.append(block := changed_rows(*arguments))
        return block

    monkeypatch.setattr(live, "changed_rows", watched)

    def run(capture: Capture) -> None:
        CaptureRun(capture, folders[capture.name], cluster, once=True).run()

    with psycopg.connect(address, autocommit=True) as connection:
        for statement in (
            "CREATE TABLE a (n INT PRIMARY KEY, price NUMERIC, note TEXT, at TIMESTAMPTZ, l INT[], raw BYTEA, ok BOOL)",
            "CREATE TABLE b (id INT PRIMARY KEY, name TEXT)",
            "CREATE TABLE c (id INT PRIMARY KEY)",
            "ALTER TABLE b REPLICA IDENTITY FULL",
            "INSERT INTO b SELECT n FROM generate_series(1, 100) n",
        ):
            connection.execute(statement.encode())
        for capture in (by_columns, one_by_one):
            run(capture)
        for statement in BACKLOG:
            connection.execute(statement.encode())
    run(by_columns)
    assert sum(block.count for block in blocks if block is not None) > 10_000
    monkeypatch.setattr(live, "BLOCK_MESSAGES_MIN", 1_000_000)
    run(one_by_one)
    for topic in ("public.a", "public.a.changes", "public.b", "public.b.changes", "transaction"):
        found, expected = (
            [
                (key, _without_name(value))
                for key, value in committed_records(bootstrap, f"{capture.name}.{topic}")
            ]
            for capture in (by_columns, one_by_one)
        )
        assert found == expected, topic
    for capture in (by_columns, one_by_one):
        source = capture.open_source()
        source.remove()
        source.close()


def _without_name(value: Any) -> Any:
    """Without what differs between two captures of the same change."""
    if value is None or "source" not in value:
        return value
    is_read = value["op"] == "r"
    source = {name: found for name, found in value["source"].items() if name != "name"}
    if is_read:
        source = {}
    return {**value, "source": source, "ts_ms": None}
