from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks import parquet_snapshot
from headrace.pipeline.sinks.parquet_layout import Description, data_files, newest_snapshot, open_dataset
from headrace.pipeline.sinks.parquet_snapshot import Partitions, Snapshot, taking_turns

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("n", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    snapshot(tmp_path / "users", 0).publish(tmp_path / "users")
    return tmp_path / "users"


def snapshot(table: Path, number: int) -> Snapshot:
    description = Description(key=("id",), partition_by=("city",))
    return Snapshot(table.with_name(".users.snapshots"), number, SCHEMA, description)


def change(table: Path, upserts: list[tuple[str, str | None, int]], deletes: list[str] = []) -> Snapshot:  # noqa: B006
    before = newest_snapshot(table)
    assert before is not None
    after = snapshot(table, int(before.name) + 1)
    partitions = Partitions(before, after)
    rows = [dict(zip(SCHEMA.names, each, strict=True)) for each in upserts]
    partitions.change(pa.Table.from_pylist(rows, SCHEMA), pa.table({"id": pa.array(deletes, pa.string())}))
    partitions.write()
    return after


def rows(table: Path) -> list[tuple[object, ...]]:
    found = newest_snapshot(table)
    assert found is not None
    return sorted(tuple(each.values()) for each in open_dataset(found).to_table().to_pylist())


def test_files_without_changed_rows_are_the_same_files(table: Path) -> None:
    change(table, [("a", "Oslo", 1), ("b", "Bergen", 1), ("c", None, 1)]).publish(table)
    before = {path.parent.name: path.stat().st_ino for path in data_files(table)}
    change(table, [("a", "Oslo", 2)], ["c"]).publish(table)
    after = {path.parent.name: path.stat().st_ino for path in data_files(table)}
    assert rows(table) == [("a", "Oslo", 2), ("b", "Bergen", 1)]
    assert after.keys() == {"city=Oslo", "city=Bergen"}
    assert after["city=Bergen"] == before["city=Bergen"]
    assert after["city=Oslo"] != before["city=Oslo"]


def test_row_that_moves_to_another_partition_leaves_the_first(table: Path) -> None:
    change(table, [("a", "Oslo", 1), ("b", "Oslo", 1)]).publish(table)
    change(table, [("a", "Bergen", 2)]).publish(table)
    assert rows(table) == [("a", "Bergen", 2), ("b", "Oslo", 1)]


def test_small_files_of_a_partition_become_one_and_large_ones_stay(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_snapshot, "ROWS_PER_FILE_MAX", 10)
    monkeypatch.setattr(parquet_snapshot, "SMALL_FILE_ROWS", 5)
    change(table, [(f"k{i}", "Oslo", i) for i in range(12)]).publish(table)
    for i in range(12, 18):
        change(table, [(f"k{i}", "Oslo", i)]).publish(table)
    assert len(rows(table)) == 18
    assert len(data_files(table)) <= 3


def test_too_many_partitions_are_rejected(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_snapshot, "PARTITIONS_MAX", 2)
    with pytest.raises(BadSink, match="more than 2 partitions by city"):
        change(table, [(f"k{i}", f"city {i}", i) for i in range(3)])


def test_crash_before_the_link_moves_leaves_the_old_snapshot(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(table, [("a", "Oslo", 1)]).publish(table)

    def crash(link: Path, target: str) -> None:
        raise RuntimeError("killed")

    newer = change(table, [("a", "Oslo", 2), ("b", "Oslo", 2)])
    with monkeypatch.context() as patched:
        patched.setattr(parquet_snapshot, "replace_link", crash)
        with pytest.raises(RuntimeError):
            newer.publish(table)
    assert rows(table) == [("a", "Oslo", 1)]
    change(table, [("a", "Oslo", 3)]).publish(table)
    assert rows(table) == [("a", "Oslo", 3)]


def test_opened_snapshot_stays_readable_until_it_is_old(table: Path) -> None:
    change(table, [("a", "Oslo", 1)]).publish(table)
    opened = newest_snapshot(table)
    assert opened is not None
    newer = change(table, [("a", "Oslo", 2)])
    newer.publish(table)
    newer.delete_older(600)
    assert open_dataset(opened).to_table().to_pylist() == [{"id": "a", "city": "Oslo", "n": 1}]
    newer.delete_older(0)
    assert not opened.exists()
    assert rows(table) == [("a", "Oslo", 2)]


def test_rows_are_removed_by_a_column_that_is_no_key(table: Path) -> None:
    change(table, [("a", "Oslo", 1), ("b", "Oslo", 2), ("c", "Rome", 1), ("d", "Bergen", 2)]).publish(table)
    before = newest_snapshot(table)
    assert before is not None
    bergen = {path.parent.name: path.stat().st_ino for path in data_files(before)}["city=Bergen"]
    after = snapshot(table, int(before.name) + 1)
    partitions = Partitions(before, after)
    partitions.remove_where("n", lambda values: pc.equal(values, 1))
    partitions.write()
    after.publish(table)
    assert rows(table) == [("b", "Oslo", 2), ("d", "Bergen", 2)]
    inodes = {path.parent.name: path.stat().st_ino for path in data_files(table)}
    assert inodes.keys() == {"city=Oslo", "city=Bergen"}
    assert inodes["city=Bergen"] == bergen


def test_only_the_newest_snapshot_is_left_after_the_others_are_deleted(table: Path) -> None:
    for n in range(3):
        change(table, [("a", "Oslo", n)]).publish(table)
    newest = newest_snapshot(table)
    assert newest is not None
    snapshot(table, 9)  # begun, and never published
    parquet_snapshot.delete_others(newest)
    assert [each.name for each in newest.parent.iterdir() if each.is_dir()] == [newest.name]
    assert rows(table) == [("a", "Oslo", 2)]


def test_second_writer_waits_for_the_first_and_fails_in_the_end(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_snapshot, "LOCK_TIMEOUT_S", 0.1)
    with taking_turns(table), pytest.raises(SinkUnavailable, match="another process"), taking_turns(table):
        pass
    with taking_turns(table):
        pass
