"""The contract of change sources: what each of them promises, whatever database it reads."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from headrace.cdc.change import Change, Committed, Op, Position
from headrace.cdc.errors import BadCapture
from tests.contract.change_source_contract import (
    CASES,
    Reader,
    SourceCase,
    changes,
    closing,
    in_short,
    replayed,
    snapshot_end,
    until_row,
)

NOTES = "CREATE TABLE notes (id INTEGER PRIMARY KEY, title VARCHAR(200), n INTEGER)"


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> SourceCase:
    return CASES[request.param](request)


@pytest.fixture
def notes(case: SourceCase) -> SourceCase:
    """With a table of two rows."""
    case.run(NOTES, "INSERT INTO notes VALUES (1, 'one', 10), (2, 'two', 20)")
    return case


@pytest.fixture
def reader(notes: SourceCase) -> Iterator[Reader]:
    """After its snapshot."""
    with closing(Reader(notes)) as reader:
        reader.until(snapshot_end)
        yield reader


def one(id: int, title: str | None, n: int) -> dict[str, object]:
    return {"id": id, "title": title, "n": n}


def test_snapshot_comes_first_and_then_the_changes_in_commit_order(notes: SourceCase) -> None:
    with closing(Reader(notes)) as reader:
        snapshot = reader.until(snapshot_end)
        notes.run("UPDATE notes SET n = 11 WHERE id = 1", "DELETE FROM notes WHERE id = 2")
        notes.run("INSERT INTO notes VALUES (3, NULL, 30)")
        events = reader.until(until_row(3))
    assert in_short(snapshot) == [("r", None, one(1, "one", 10)), ("r", None, one(2, "two", 20))]
    assert [each.op for each in changes(events)] == [Op.UPDATE, Op.DELETE, Op.CREATE]
    assert [each.after for each in changes(events)] == [one(1, "one", 11), None, one(3, None, 30)]
    deleted = changes(events)[1].before
    assert deleted is not None
    assert deleted["id"] == 2


def test_change_has_its_table_key_and_commit_time(notes: SourceCase, reader: Reader) -> None:
    notes.run("INSERT INTO notes VALUES (3, 'three', 30)")
    (change,) = changes(reader.until(until_row(3)))
    assert change.table.path[-1] == "notes"
    assert change.table.key == ("id",)
    assert [column.name for column in change.table.columns] == ["id", "title", "n"]
    assert change.committed_ms > 1_700_000_000_000


def test_rolled_back_transaction_has_no_events(notes: SourceCase, reader: Reader) -> None:
    with pytest.raises(Exception, match="nothing"):
        notes.run("INSERT INTO notes VALUES (3, 'three', 30)", "INSERT INTO nothing VALUES (1)")
    notes.run("INSERT INTO notes VALUES (4, 'four', 40)")
    assert [each.after for each in changes(reader.until(until_row(4)))] == [one(4, "four", 40)]


def test_changed_key_is_a_delete_and_a_create(notes: SourceCase, reader: Reader) -> None:
    notes.run("UPDATE notes SET id = 9 WHERE id = 1")
    deleted, created = changes(reader.until(until_row(9)))
    assert (deleted.op, created.op) == (Op.DELETE, Op.CREATE)
    assert deleted.before is not None
    assert deleted.before["id"] == 1
    assert created.after == one(9, "one", 10)


def write_some(case: SourceCase) -> None:
    case.run("UPDATE notes SET n = 0", "UPDATE notes SET id = 7 WHERE id = 2")
    case.run("DELETE FROM notes WHERE id = 7", "INSERT INTO notes VALUES (8, 'eight', 80)")


def test_source_continues_exactly_after_any_change(notes: SourceCase) -> None:
    with closing(Reader(notes)) as reader:
        reader.until(snapshot_end)
        write_some(notes)
        expected = reader.until(until_row(8))
    assert len(changes(expected)) == 6
    for number, event in enumerate(expected):
        if event.position is not None and changes(expected[number + 1 :]):
            kept: Position = json.loads(json.dumps(event.position))
            with closing(Reader(notes, kept)) as again:
                rest = in_short(again.until(until_row(8)))
            assert rest == in_short(expected[number + 1 :]), f"after {event}"


def test_snapshot_continues_after_any_row(case: SourceCase) -> None:
    case.run(NOTES, *(f"INSERT INTO notes VALUES ({id}, 'row', {id})" for id in range(1, 8)))
    with closing(Reader(case)) as reader:
        snapshot = reader.take(3)
    case.run("UPDATE notes SET n = 0 WHERE id IN (1, 6)", "DELETE FROM notes WHERE id IN (2, 7)")
    with closing(Reader(case, snapshot[-1].position)) as again:
        rest = again.until(snapshot_end)
    read = [each.after["id"] for each in changes(rest) if each.op is Op.READ and each.after]
    assert read == [4, 5, 6], "rows were read twice or not at all"
    rows = {each.after["id"]: each.after for each in changes(snapshot) if each.after}
    for change in changes(rest):
        if change.op is Op.DELETE and change.before:
            rows.pop(change.before["id"], None)
        elif change.after:
            rows[change.after["id"]] = change.after
    assert rows == {row["id"]: row for row in case.rows("notes")}


def test_changes_while_the_source_is_closed_are_not_lost(notes: SourceCase) -> None:
    with closing(Reader(notes)) as reader:
        position = reader.until(snapshot_end)[-1].position
    notes.run("UPDATE notes SET n = 12 WHERE id = 1")
    notes.run("INSERT INTO notes VALUES (3, 'three', 30)")
    with closing(Reader(notes, position)) as again:
        assert [each.op for each in changes(again.until(until_row(3)))] == [Op.UPDATE, Op.CREATE]


def test_once_ends_with_what_was_committed_before(notes: SourceCase) -> None:
    source = notes.open()
    events = [each for each in source.events(None, once=True) if each is not None]
    source.close()
    assert [each.op for each in changes(events)] == [Op.READ, Op.READ]
    notes.run("DELETE FROM notes")
    source = notes.open()
    later = [each for each in source.events(events[-1].position, once=True) if each is not None]
    source.close()
    assert [each.op for each in changes(later)] == [Op.DELETE, Op.DELETE]


def test_nothing_is_lost_between_snapshot_and_stream_under_load(case: SourceCase) -> None:
    case.run(NOTES, *(f"INSERT INTO notes VALUES ({id}, 'row', 0)" for id in range(500)))
    is_done = threading.Event()

    def write() -> None:
        for number in range(1, 150):
            first = number * 3 % 500
            case.run(
                f"UPDATE notes SET n = {number} WHERE id BETWEEN {first} AND {first + 20}",
                f"DELETE FROM notes WHERE id = {first}",
                f"INSERT INTO notes VALUES ({1000 + number}, 'new', {number})",
            )
        case.run("INSERT INTO notes VALUES (5000, 'last', 0)")
        is_done.set()

    writer = threading.Thread(target=write)
    with closing(Reader(case)) as reader:
        events = reader.take(1)
        writer.start()
        events += reader.until(until_row(5000))
        writer.join()
    assert is_done.is_set()
    assert replayed(events) == {row["id"]: row for row in case.rows("notes")}
    created = [each.after["id"] for each in changes(events) if each.op is Op.CREATE and each.after]
    assert [id for id in created if id < 5000] == [1000 + number for number in range(1, 150)]


def test_table_is_read_again_while_the_stream_goes_on(notes: SourceCase, reader: Reader) -> None:
    notes.run("UPDATE notes SET n = 11 WHERE id = 1")
    name = changes(reader.until(lambda event: isinstance(event, Committed)))[0].table.name
    reader.source.snapshot([name])
    again = [each for each in changes(reader.until(snapshot_end)) if each.op is Op.READ]
    assert [each.after for each in again] == [one(1, "one", 11), one(2, "two", 20)]
    notes.run("INSERT INTO notes VALUES (3, 'three', 30)")
    assert [each.op for each in changes(reader.until(until_row(3)))] == [Op.CREATE]
    (progress,) = reader.source.progress()
    assert (progress.table, progress.rows_read, progress.is_done) == (name, 2, True)


def test_unknown_table_is_not_read_again(notes: SourceCase, reader: Reader) -> None:
    with pytest.raises(BadCapture, match="note is not captured"):
        reader.source.snapshot(["note"])


def test_new_table_is_read_and_followed(notes: SourceCase, reader: Reader) -> None:
    notes.run("CREATE TABLE tags (id INTEGER PRIMARY KEY, tag VARCHAR(20))")
    notes.run("INSERT INTO tags VALUES (100, 'a')")
    first = changes(reader.until(until_row(100)))
    assert first[-1].table.path[-1] == "tags"
    notes.run("INSERT INTO tags VALUES (101, 'b')")
    later = changes(reader.until(until_row(101)))
    assert later[-1].after == {"id": 101, "tag": "b"}


def test_first_run_that_stored_no_position_is_begun_again_by_the_next(notes: SourceCase) -> None:
    with closing(Reader(notes)) as reader:
        reader.take(1)
    with closing(Reader(notes)) as again:
        read = [each.after for each in changes(again.until(snapshot_end)) if each.op is Op.READ]
    assert read == [one(1, "one", 10), one(2, "two", 20)]


def test_new_table_whose_rows_were_not_stored_is_read_by_the_next_run(notes: SourceCase) -> None:
    with closing(Reader(notes)) as reader:
        position = reader.until(snapshot_end)[-1].position
        notes.run(
            "CREATE TABLE tags (id INTEGER PRIMARY KEY, tag VARCHAR(20))",
            "INSERT INTO tags VALUES (100, 'a')",
        )
        reader.until(until_row(100))
    with closing(Reader(notes, position)) as again:
        (row,) = {
            str(each.after) for each in changes(again.until(until_row(100))) if each.table.path[-1] == "tags"
        }
    assert row == str({"id": 100, "tag": "a"})


def test_every_position_from_the_announcement_on_holds_a_requested_snapshot(
    notes: SourceCase, reader: Reader
) -> None:
    notes.run("UPDATE notes SET n = 11 WHERE id = 1", "UPDATE notes SET n = 21 WHERE id = 2")
    notes.run("UPDATE notes SET n = 12 WHERE id = 1")
    events = reader.take(1)  # the others are in flight
    name = changes(events)[0].table.name
    reader.source.snapshot([name])
    events += reader.until(lambda event: isinstance(event, Committed) and event.requested == (name,))
    announced = len(events) - 1
    notes.run("UPDATE notes SET n = 13 WHERE id = 1")
    events += reader.until(snapshot_end)
    reader.close()
    for number, event in enumerate(events[announced:], start=announced):
        assert event.position is not None
        with closing(Reader(notes, json.loads(json.dumps(event.position)), once=True)) as again:
            read = changes(events[announced : number + 1]) + changes(again.rest())
        keys = {each.after["id"] for each in read if each.op is Op.READ and each.after}
        assert keys == {1, 2}, f"a restart after {event} does not read the table"


@pytest.mark.parametrize("rows", [None, 1, 2], ids=["new", "in a snapshot", "after a snapshot"])
def test_snapshot_requested_before_the_start_is_announced_and_reads_every_row(
    notes: SourceCase, rows: int | None
) -> None:
    position = None
    with closing(Reader(notes)) as reader:
        events = reader.take(1)
        name = changes(events)[0].table.name
        if rows is not None:
            events += reader.until(snapshot_end) if rows == 2 else []
            position = events[-1].position
    with closing(Reader(notes, position, once=True, requested=[name])) as again:
        found = again.rest()
    assert [each.requested for each in found if isinstance(each, Committed) and each.requested] == [(name,)]
    assert [each.after["id"] for each in changes(found) if each.after][-2:] == [1, 2]


def test_new_column_is_followed(notes: SourceCase, reader: Reader) -> None:
    notes.run("ALTER TABLE notes ADD COLUMN colour VARCHAR(20)")
    notes.run("INSERT INTO notes VALUES (3, 'three', 30, 'red')")
    events = reader.until(
        lambda event: isinstance(event, Change) and (event.after or {}).get("colour") == "red"
    )
    assert [column.name for column in changes(events)[-1].table.columns] == ["id", "title", "n", "colour"]
    notes.run("UPDATE notes SET colour = 'blue' WHERE id = 3")
    events = reader.until(
        lambda event: isinstance(event, Change) and (event.after or {}).get("colour") == "blue"
    )
    assert changes(events)[-1].after == {**one(3, "three", 30), "colour": "blue"}


def test_only_matching_tables_are_captured(case: SourceCase) -> None:
    case.run(NOTES, NOTES.replace("notes", "other"), "INSERT INTO notes VALUES (1, 'one', 10)")
    with closing(Reader(case, tables=["*notes"])) as reader:
        reader.until(snapshot_end)
        case.run("INSERT INTO other VALUES (2, 'two', 20)", "INSERT INTO notes VALUES (3, 'three', 30)")
        assert [each.after for each in changes(reader.until(until_row(3)))] == [one(3, "three", 30)]


def test_table_without_a_primary_key_is_rejected_with_the_remedy(case: SourceCase) -> None:
    case.run("CREATE TABLE loose (a INTEGER)")
    source = case.open()
    with pytest.raises(BadCapture, match="loose has no primary key") as rejected:
        source.check()
    source.close()
    assert "primary key" in rejected.value.hint.lower()


def test_capture_without_tables_is_rejected(case: SourceCase) -> None:
    source = case.open()
    with pytest.raises(BadCapture, match="no table"):
        source.check()
    source.close()


@pytest.mark.parametrize("name", ['quo"ted', "do.tted", "Ünï cödé", "it's", "select"])
def test_table_and_column_may_have_any_name(case: SourceCase, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    case.run(f"CREATE TABLE {quoted} (id INTEGER PRIMARY KEY, {quoted} VARCHAR(20))")
    case.run(f"INSERT INTO {quoted} VALUES (1, 'a')")
    with closing(Reader(case)) as reader:
        reader.until(snapshot_end)
        case.run(f"UPDATE {quoted} SET {quoted} = 'b'", f"INSERT INTO {quoted} VALUES (2, 'c')")
        events = changes(reader.until(until_row(2)))
    assert [each.after for each in events] == [{"id": 1, name: "b"}, {"id": 2, name: "c"}]
    assert events[0].table.path[-1] == name


def test_removed_source_leaves_the_tables_usable_and_starts_with_a_snapshot(notes: SourceCase) -> None:
    with closing(Reader(notes)) as reader:
        reader.until(snapshot_end)
    source = notes.open()
    source.remove()
    source.remove()
    source.close()
    notes.run("INSERT INTO notes VALUES (3, 'three', 30)")
    with closing(Reader(notes)) as again:
        assert [each.op for each in changes(again.until(snapshot_end))] == [Op.READ] * 3


def test_large_transaction_is_yielded_whole(notes: SourceCase, reader: Reader) -> None:
    notes.run(*(f"INSERT INTO notes VALUES ({id}, 'many', {id})" for id in range(10, 5_010)))
    events = changes(reader.until(until_row(5_009)))
    assert [each.after and each.after["id"] for each in events] == list(range(10, 5_010))
