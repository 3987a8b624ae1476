"""The outbox of each kind of database, published: each committed row once, in commit order."""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.cdc.outbox import publishing as module
from headrace.cdc.outbox.emptying import OutboxRows
from headrace.cdc.runner import CaptureRun
from headrace.cdc.schemas import read_schemas
from headrace.kafka.committed import read_committed
from headrace.queue.message import headers_of
from tests.cdc.conftest import committed_records
from tests.cdc.outbox.conftest import Shop, event_id


def letters(shop: Shop) -> list[tuple[Any, dict[str, str]]]:
    """Row and headers of each dead letter."""
    return [
        (
            json.loads(message.value() or b"null"),
            {name: (value or b"").decode() for name, value in headers_of(message)},
        )
        for message in read_committed(shop.cluster, shop.letters)
    ]


def test_row_is_published_with_its_key_payload_and_headers_and_then_deleted(shop: Shop) -> None:
    shop.run()
    shop.database.insert((1, "order", "7", '{"total": 9}'), (2, "user", "ann", '{"city": "Oslo"}'))
    shop.run()
    (event,) = shop.events("order")
    assert event.key() == b"7"
    assert json.loads(event.value() or b"") == {"total": 9}
    assert event.headers() == [("id", event_id(1).encode()), ("eventType", b"changed")]
    (other,) = shop.events("user")
    assert other.key() == b"ann"
    assert shop.left == 0


def test_row_that_its_own_transaction_deletes_is_published(shop: Shop) -> None:
    shop.run(delete=False)
    shop.database.insert((1, "order", "7", "1"), (2, "order", "7", "2"), delete=True)
    shop.run(delete=False)
    assert shop.values("order") == [b"1", b"2"]


def test_row_that_was_inserted_before_the_first_run_is_published_once(shop: Shop) -> None:
    shop.database.insert((1, "order", "7", "1"))
    shop.run(delete=False)
    shop.database.insert((2, "order", "7", "2"))
    shop.folder.request_snapshot([shop.database.table])
    shop.run(delete=False)
    shop.folder.request_snapshot([shop.database.table])
    shop.run(delete=False)
    assert shop.values("order") == [b"1", b"2"]
    assert shop.left == 2


def test_rolled_back_row_is_not_published(shop: Shop) -> None:
    shop.run()
    with pytest.raises(Exception, match="nothing"):
        shop.database.run(
            f"INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)"
            f" VALUES ('{event_id(1)}', 'order', '7', 'changed', '1')",
            "INSERT INTO nothing VALUES (1)",
        )
    shop.database.insert((2, "order", "7", "2"))
    shop.run()
    assert shop.values("order") == [b"2"]


def test_events_of_an_aggregate_are_in_commit_order_under_concurrent_writers(shop: Shop) -> None:
    shop.database.run("CREATE TABLE counters (id INTEGER PRIMARY KEY, n INTEGER)")
    shop.database.run("INSERT INTO counters VALUES (1, 0)")
    shop.run()

    def write() -> None:
        for _ in range(40):
            with shop.database.connect() as connection:
                cursor = connection.cursor()
                cursor.execute("UPDATE counters SET n = n + 1 WHERE id = 1")
                cursor.execute("SELECT n FROM counters WHERE id = 1")
                (number,) = cursor.fetchone()
                cursor.execute(
                    "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)"
                    f" VALUES ('{event_id(number)}', 'counter', '1', 'counted', '{number}')"
                )
                connection.commit()

    is_done = threading.Event()
    capture = replace(shop.capture)
    running = threading.Thread(
        target=CaptureRun(capture, shop.folder, shop.cluster, is_stopping=is_done.is_set).run
    )
    running.start()
    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    is_done.set()
    running.join()
    shop.run()
    assert [int(value) for value in shop.values("counter")] == list(range(1, 121))
    assert shop.left == 0


def test_rows_of_a_killed_run_are_published_once_and_deleted_by_the_next(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(_self: OutboxRows, _ids: object) -> bool:
        raise Killed

    shop.run()
    shop.database.insert((1, "order", "7", "1"), (2, "order", "7", "2"))
    with monkeypatch.context() as patched:
        patched.setattr(OutboxRows, "delete", kill)
        with pytest.raises(Killed):
            shop.run()
    assert shop.left == 2
    shop.folder.request_snapshot([shop.database.table])
    shop.run()
    assert shop.values("order") == [b"1", b"2"]
    assert shop.left == 0


def test_more_rows_than_the_position_holds_are_published_once_and_deleted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PUBLISHED_MAX", 10)
    shop.database.insert(*((number, "order", "7", str(number)) for number in range(50)))
    shop.run()
    shop.database.insert(*((number, "order", "7", str(number)) for number in range(50, 100)))
    shop.run()
    assert [int(value) for value in shop.values("order")] == list(range(100))
    assert shop.left == 0


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (None, "aggregatetype is null"),
        ("Überweisung 1", "can't be a topic's name"),
    ],
)
def test_row_without_a_possible_topic_is_a_dead_letter_and_the_rest_goes_on(
    shop: Shop, kind: str | None, reason: str
) -> None:
    shop.run()
    shop.database.insert((1, kind, "7", '{"total": 9}'), (2, "order", "8", "2"))
    run = shop.run()
    assert shop.values("order") == [b"2"]
    ((row, headers),) = letters(shop)
    assert (row["id"], json.loads(row["payload"])) == (event_id(1), {"total": 9})
    assert reason in headers["__dlq.errors.message"]
    assert headers["__dlq.errors.group"] == f"cdc.{shop.capture.name}"
    assert run.status.rejected == 1
    assert shop.left == 0, "the dead letter has the whole row"


def test_row_that_is_too_large_for_its_topic_is_a_dead_letter(shop: Shop) -> None:
    shop.cluster.create_topic(shop.topic("order"), partitions=1, config={"max.message.bytes": "10000"})
    shop.run()
    shop.database.insert((1, "order", "7", json.dumps("x" * 20_000)), (2, "order", "8", "2"))
    shop.run()
    assert shop.values("order") == [b"2"]
    ((row, headers),) = letters(shop)
    assert json.loads(row["payload"]) == "x" * 20_000
    assert "max.message.bytes" in headers["__dlq.errors.message"]
    assert shop.left == 0


def test_row_that_is_too_large_for_the_dead_letters_too_stays_in_the_table(shop: Shop) -> None:
    for topic in (shop.topic("order"), shop.letters):
        shop.cluster.create_topic(topic, partitions=1, config={"max.message.bytes": "10000"})
    shop.run()
    shop.database.insert((1, "order", "7", json.dumps("x" * 20_000)), (2, "order", "8", "2"))
    shop.run()
    assert shop.values("order") == [b"2"]
    (letter,) = read_committed(shop.cluster, shop.letters)
    headers = dict(letter.headers() or [])
    assert int(headers["__dlq.errors.truncated.from.bytes"] or 0) > 20_000
    assert shop.database.rows("SELECT aggregateid FROM outbox") == [("7",)]


def test_type_that_is_different_for_each_event_does_not_create_topics_without_end(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOPICS_MAX", 2)
    shop.run()
    shop.database.insert(*((number, f"kind{number}", "7", "1") for number in range(3)))
    shop.run()
    assert (shop.values("kind0"), shop.values("kind1")) == ([b"1"], [b"1"])
    assert "more than 2 topics" in letters(shop)[0][1]["__dlq.errors.message"]


def test_outbox_is_captured_alone_unless_other_tables_are_named(shop: Shop) -> None:
    shop.database.run("CREATE TABLE notes (id INTEGER PRIMARY KEY)")
    shop.database.run("INSERT INTO notes VALUES (1)")
    shop.database.insert((1, "order", "7", "1"))
    shop.run()
    assert shop.values("order") == [b"1"]
    assert read_schemas(shop.cluster, shop.capture.name) == {}


def test_outbox_and_other_tables_are_captured_together(shop: Shop, bootstrap: str) -> None:
    shop.database.run("CREATE TABLE notes (id INTEGER PRIMARY KEY)")
    shop.database.run("INSERT INTO notes VALUES (1)")
    notes = shop.database.table.removesuffix("outbox") + "notes"
    capture = replace(shop.capture, tables=(notes,))
    CaptureRun(capture, shop.folder, shop.cluster, once=True).run()
    shop.database.insert((1, "order", "7", "1"))
    shop.database.run("INSERT INTO notes VALUES (2)")
    CaptureRun(capture, shop.folder, shop.cluster, once=True).run()
    changes = committed_records(bootstrap, f"{shop.capture.name}.{notes}")
    assert [key["id"] for key, _ in changes] == [1, 2]
    assert shop.values("order") == [b"1"]
    assert set(read_schemas(shop.cluster, shop.capture.name)) == {f"{shop.capture.name}.{notes}"}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_file_without_a_write_ahead_log_is_emptied_while_changes_are_read(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PUBLISHED_MAX", 100)
    monkeypatch.setattr(module, "UNDELETED_MAX", 1_000)
    monkeypatch.setattr("headrace.cdc.sqlite.source.READ_S_MAX", 0.01)
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    shop.run()
    shop.database.insert(*((number, "order", "7", str(number)) for number in range(3_000)))
    shop.run()
    assert [int(value) for value in shop.values("order")] == list(range(3_000))
    assert shop.left == 0
