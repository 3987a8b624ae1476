"""Files of late rows: written once for each bucket, read complete, and deleted with their batch."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError
from headrace.operators.late_rows import (
    LATE_ROWS,
    LateRow,
    LateRowsTo,
    PassedLots,
    delete_lots,
    late_lots,
    original_row,
)
from headrace.plan_names import LATE_ROWS_FOLDER

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TO_TOPIC = LateRowsTo(topic="clicks.late", operator="tumbling", owner="1f2e3d4c")
TO_JOB = LateRowsTo(topic="", operator="session", owner="00000000")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of late rows, in a task of batch 7."""
    in_task(monkeypatch, str(tmp_path))
    return tmp_path


def in_task(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setattr(TaskContext, "_taskContext", None)
    context = TaskContext()  # the only one of the process, until the test ends
    context._localProperties = {LATE_ROWS_FOLDER: place, "streaming.sql.batchId": "7"}


def rows_of(*originals: dict[str, Any]) -> pa.Table:
    rows = [
        {"window_start": NOON, "window_end": NOON, "watermark": NOON, "original": json.dumps(each)}
        for each in originals
    ]
    return pa.Table.from_pylist(rows, schema=LATE_ROWS)


def test_late_rows_are_read_as_they_were_written(folder: Path) -> None:
    TO_TOPIC.write(rows_of({"row": '{"n":1}', "_offset": 5}, {"row": '{"n":2}'}), 3)
    TO_JOB.write(rows_of({"row": "{}"}), 0)
    lots = late_lots(folder, 7)
    assert [(each.topic, each.operator) for each in lots] == [("", "session"), ("clicks.late", "tumbling")]
    first, second = lots[1].rows()
    assert (first.content, first.record) == ('{"n":1}', {"_offset": 5})
    assert (second.content, second.record) == ('{"n":2}', {})
    assert (first.window_start, first.window_end, first.watermark) == (NOON, NOON, NOON)


def test_a_retried_task_replaces_its_file(folder: Path) -> None:
    for content in ("one", "two"):
        TO_TOPIC.write(rows_of({"row": content}), 3)
    (lot,) = late_lots(folder, 7)
    assert [row.content for row in lot.rows()] == ["two"]
    assert isinstance(lot.content, Path)
    assert [path.name for path in lot.content.parent.iterdir()] == ["tumbling 1f2e3d4c 3.arrow"]


def test_a_batch_is_deleted_alone(folder: Path) -> None:
    TO_TOPIC.write(rows_of({"row": "{}"}), 3)
    delete_lots(folder, 6)
    assert len(late_lots(folder, 7)) == 1
    delete_lots(folder, 7)
    assert late_lots(folder, 7) == []


@pytest.mark.parametrize(("to", "named"), [(TO_TOPIC, "topic clicks.late"), (TO_JOB, "a topic")])
def test_a_query_without_a_folder_fails(to: LateRowsTo, named: str) -> None:
    with pytest.raises(HeadraceError, match=f"late rows go to {named}, but only a Job") as rejected:
        to.require_folder()
    assert LATE_ROWS_FOLDER in rejected.value.hint


@pytest.mark.parametrize(
    ("record", "key"),
    [
        ({}, None),
        ({"_key": None}, None),
        ({"_key": "k"}, b"k"),
        ({"_key": 7}, b"7"),
        ({"_key_base64": base64.b64encode(b"\xff").decode()}, b"\xff"),
        ({"_key_base64": None}, None),
    ],
)
def test_the_key_of_a_late_row_is_the_key_of_its_record(record: dict[str, Any], key: bytes | None) -> None:
    row = LateRow(window_start=NOON, window_end=NOON, watermark=NOON, content="{}", record=record)
    assert row.key == key


@pytest.mark.parametrize("headers", [None, [], [("a", b"1"), ("b", None)]])
def test_the_headers_of_a_late_row_are_those_of_its_record(
    headers: list[tuple[str, bytes | None]] | None,
) -> None:
    encoded = [
        {"key": key, "value": None if value is None else base64.b64encode(value).decode()}
        for key, value in headers or []
    ]
    record = {"_headers": None if headers is None else encoded}
    row = LateRow(window_start=NOON, window_end=NOON, watermark=NOON, content="{}", record=record)
    assert list(row.headers) == (headers or [])


def test_the_json_of_a_row_has_all_its_columns_and_its_record(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("ann", None, bytearray(b"\x00"), 5)], "user string, `a.b` int, _key binary, _offset bigint"
    )
    text = rows.select(original_row(rows)).collect()[0][0]
    original = json.loads(text)
    assert json.loads(original.pop("row")) == {"user": "ann", "a.b": None}
    assert original == {"_key_base64": "AA==", "_offset": 5}


def test_rows_that_tasks_pass_with_their_results_are_those_of_their_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed = PassedLots()
    in_task(monkeypatch, passed.address)
    for content in ("one", "two"):
        TO_TOPIC.write(rows_of({"row": content}), 3)
    TO_TOPIC.require_place()
    assert passed.of_batch(6) == []
    (lot,) = passed.of_batch(7)
    assert (lot.topic, lot.operator) == (TO_TOPIC.topic, "tumbling")
    assert [row.content for row in lot.rows()] == ["two"], "a retried task replaces its rows"
    passed.delete(7)
    assert passed.of_batch(7) == []
